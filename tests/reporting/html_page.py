"""A page as its parser sees it."""

from html.parser import HTMLParser

VOID = {"meta", "link", "img", "source", "br", "input"}


class Page(HTMLParser):
    """Collect the elements of a page and check that they are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.headings = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings.append((self.open[-1], data))

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]
