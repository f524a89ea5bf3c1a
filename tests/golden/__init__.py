"""Corpus of golden results: fails if a seeded result, a code, a written byte or a public text changes.

The values are committed in ``values/<part>.json``, so that a commit that changes one shows the change as a diff:

    python -m tests.golden                  # check all parts
    python -m tests.golden fits codes       # check some parts
    python -m tests.golden --update fits    # write the present values of a part
"""
