"""Damage to valid files: bytes, text, values of a tree, cells of a table, command lines."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

ODD = (
    None, True, False, "", " ", "none", "nan", "NaN", "-", "0", "1e5", "1,5", "wxyz", "é", "\u202eabc", "𝒳", "\x7f",
    "../../x", "/", "a" * 5000, "'", '"', "=1+1", 0, -1, 1, 2, 5, 0.5, -0.0, 1e-9, 1e9, 1e308, 2**31, 2**63, 10**12,
    10**30, float("nan"), float("inf"), float("-inf"), [], {}, [[]], [1, 2], ["x", "y"], {"a": 1},
    "2020-01-01", "infinity",
)  # fmt: skip
TOKENS = (
    "\x00",
    "\ufeff",
    "\r",
    "\n\n",
    "\t",
    ";",
    ",,",
    '"',
    "'",
    "{",
    "}",
    "[",
    "]",
    ":",
    "#",
    "&a ",
    "*a",
    "!!",
    "---\n",
)


def bytes_of(data: bytes, rng: random.Random) -> bytes:
    """Flip, cut, repeat or insert bytes."""
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + rng.choice((1, 2, 8, 100)))
    match rng.randrange(6):
        case 0 if at < len(data):
            return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[end:]
        case 3:
            return data[:end] + data[at:]
        case 4:
            return b"" if rng.random() < 0.2 else data[:at] + rng.randbytes(rng.choice((1, 4))) + data[at:]
    return data[:at] + rng.choice(TOKENS).encode() + data[at:]


def tree(content: Any, rng: random.Random) -> Any:
    """Change one value of a tree of mappings and lists: replace, remove, rename, repeat or nest it."""
    content = copy.deepcopy(content)
    places: list[tuple[Any, Any]] = []
    waiting = [content]
    while waiting:
        node = waiting.pop()
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                waiting.append(node[key])
    if not places or rng.random() < 0.02:
        return rng.choice(ODD)
    node, key = rng.choice(places)
    match rng.randrange(8):
        case 0:
            del node[key]
        case 1 if isinstance(node, dict):
            node[rng.choice(("x", f"{key}s", str(key).upper(), "", "__class__"))] = node.pop(key)
        case 2 if isinstance(node, list):
            node.append(copy.deepcopy(node[key]))
        case 3:
            node[key] = [node[key]] if rng.random() < 0.5 else {"x": node[key]}
        case 4:
            other, there = rng.choice(places)
            node[key] = copy.deepcopy(other[there]) if there in other or isinstance(other, list) else None
        case _:
            node[key] = copy.deepcopy(rng.choice(ODD))
    return content


def json_text(content: Any, rng: random.Random) -> bytes:
    """Return a changed tree, or damaged text, of JSON; at times with a key twice or nested deep."""
    if rng.random() < 0.3:
        return bytes_of(json.dumps(content).encode(), rng)
    changed = tree(content, rng)
    if rng.random() < 0.3:
        changed = tree(changed, rng) if isinstance(changed, dict | list) else changed
    text = json.dumps(changed)
    if rng.random() < 0.05 and isinstance(changed, dict) and changed:
        key = rng.choice(list(changed))
        text = text[:-1] + f", {json.dumps(str(key))}: {json.dumps(rng.choice(ODD))}}}"
    if rng.random() < 0.02:
        text = "[" * 100_000 + text
    return text.encode()


def yaml_text(content: Any, rng: random.Random) -> bytes:
    """Return a changed tree, or damaged text, of YAML."""
    import yaml

    if rng.random() < 0.3:
        return bytes_of(yaml.safe_dump(content, sort_keys=False).encode(), rng)
    text = yaml.safe_dump(tree(content, rng), sort_keys=False, allow_unicode=True)
    if rng.random() < 0.1:
        text += rng.choice(text.splitlines(keepends=True))
    if rng.random() < 0.02:
        text = "a: &a [*a]\n" + text
    return text.encode("utf-8", "surrogatepass")


def csv_text(text: str, rng: random.Random) -> bytes:
    """Return a table with a changed cell, column or line, or damaged bytes."""
    if rng.random() < 0.25:
        return bytes_of(text.encode(), rng)
    rows = [line.split(",") for line in text.splitlines()]
    i, j = rng.randrange(len(rows)), rng.randrange(len(rows[0]))
    match rng.randrange(8):
        case 0:
            rows = [[*row, row[j]] for row in rows]
        case 1:
            rows = [row[:j] + row[j + 1 :] for row in rows]
        case 2:
            rows[i] = rows[i] + ["1"] * rng.choice((1, 3))
        case 3:
            rows[i] = rows[i][:j]
        case 4:
            return "\n".join(rng.choice((";", "\t", "|")).join(row) for row in rows).encode()
        case 5:
            return (rng.choice(("\ufeff", "\n", "# x\n")) + text).encode(rng.choice(("utf-8", "utf-16", "utf-8")))
        case _:
            rows[i][j] = str(rng.choice(ODD))
    return ("\n".join(map(",".join, rows)) + rng.choice(("\n", "", "\n\n"))).encode("utf-8", "surrogatepass")


def arguments(valid: list[str], rng: random.Random) -> list[str]:
    """Return a command line with one or two words changed, removed, repeated or moved."""
    words = list(valid)
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(words)) if words else 0
        match rng.randrange(6) if words else 5:
            case 0:
                del words[at]
            case 1:
                words.insert(at, words[at])
            case 2:
                other = rng.randrange(len(words))
                words[at], words[other] = words[other], words[at]
            case 3:
                words.insert(
                    at, rng.choice(("--json", "--nope", "-x", "--", "--seed", "--rows", "--delta", "0", "--out"))
                )
            case _:
                odd = rng.choice(ODD)
                if words:
                    words[at] = str(odd).replace("\x00", "")
    return words
