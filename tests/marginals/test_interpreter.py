"""The innermost loops against one turn after the other, to the bit: seeded results must not depend on how they run."""

import itertools
import math

import numpy as np
import pytest

from marginalia.marginals import interpreter

# Shapes beside the bounds at which a kernel changes its loops, and a block of sums and a bit.
SHAPES = [(2, 3, 5), (2, 15, 6), (3, 16, 7), (2, 17, 2), (1, 40, 3), (2, 130, 4), (1, 300, 9), (4, 1, 1), (1, 2, 30)]
KINDS = list(itertools.product([False, True], repeat=3))  # along which of the three loops a table moves


def laid_out(shape, moves, order):
    """Return the moves of a contiguous table that moves along some loops, stored in the order of `order`."""
    step, out = 1, [0, 0, 0]
    for axis in order:
        if moves[axis]:
            out[axis], step = step, step * shape[axis]
    return tuple(out), step


def cells(offset, move, at):
    return offset + sum(m * i for m, i in zip(move, at, strict=True))


def one_by_one(w, shape, d, d_move, a, a_move, b, b_move):
    """Add a * b to d. A sum over the innermost loop begins with 0, and is added to d as a whole."""
    n2, n1, n0 = shape
    for i, j in itertools.product(range(n2), range(n1)):
        turns = [
            (cells(d, d_move, (i, j, k)), cells(a, a_move, (i, j, k)), cells(b, b_move, (i, j, k))) for k in range(n0)
        ]
        if d_move[2] != 0:
            for x, y, z in turns:
                w[x] += w[y] * w[z]
            continue
        total = 0.0
        if a_move[2] == 1 and b_move[2] == 0:
            for _, y, _ in turns:
                total += w[y]
            total *= w[turns[0][2]]
        else:
            for _, y, z in turns:
                total += w[y] * w[z]
        w[turns[0][0]] += total


def tables(shape, seed):
    """Yield layouts of three tables in a workspace of positive numbers, d behind a and b."""
    rng = np.random.default_rng(seed)
    for moves in itertools.product(KINDS, repeat=3):
        layouts = [laid_out(shape, kind, rng.permutation(3)) for kind in moves]
        (d_move, d_cells), (a_move, a_cells), (b_move, b_cells) = layouts
        w = rng.random(a_cells + b_cells + d_cells) * 10.0 ** rng.integers(-6, 6, a_cells + b_cells + d_cells)
        yield moves, w, (a_cells + b_cells, d_move, 0, a_move, a_cells, b_move)


@pytest.mark.parametrize("shape", SHAPES[:6])
def test_sums_of_products_are_those_of_one_turn_after_the_other(shape):
    every = 1 + math.prod(shape) // 40  # a loop of Python takes long
    for moves, w, places in itertools.islice(tables(shape, 0), 0, None, every):
        expected = w.copy()
        one_by_one(expected, shape, *places)
        interpreter.multiply_add(w, shape, *places)
        np.testing.assert_array_equal(w, expected, err_msg=str((moves, places)))


@pytest.mark.parametrize("shape", SHAPES)
def test_products_are_those_of_arrays(shape):
    for moves, w, places in tables(shape, 1):
        if not all(moves[0]):
            continue  # a product has all axes
        expected = w.copy()
        d, d_move, a, a_move, b, b_move = places
        at = np.indices(shape).reshape(3, -1)
        expected[cells(d, d_move, at)] = w[cells(a, a_move, at)] * w[cells(b, b_move, at)]
        interpreter.multiply(w, shape, *places)
        np.testing.assert_array_equal(w, expected, err_msg=str((moves, places)))
