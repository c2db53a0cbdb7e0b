"""The double binary tree (Sanders, Speck and Träff 2009), unpipelined: chunks do the pipelining."""

from __future__ import annotations

from fractions import Fraction

from cosmic_opt.system.collectives.base import ALGORITHMS, Step, Table
from cosmic_opt.system.collectives.halving_doubling import HalvingDoubling


class DoubleBinaryTree(HalvingDoubling):
    """Two complementary in-order trees, half the payload each: reduced up to the roots, broadcast down.

    In the first tree rank 0 is the root and has one child, n/2; below it, rank r of lowest set bit b has the
    children r - b/2 and r + b/2. The second tree is the first with rank n - 1 - r for r: whoever is a leaf in
    one is an inner node of the other. Exists for powers of two.

    A tree moves whole halves, so it has no scattered form: reduce-scatter and all-gather are those of
    `halving_doubling`, which exists for the same group sizes.
    """

    name = "double_binary_tree"

    def all_reduce_steps(self, npus: int) -> tuple[Step, ...]:
        """Return log2(n) steps up and log2(n) steps down; a step is one level of both trees."""
        levels = range(npus.bit_length() - 1)
        up = [_level_up(npus, 1 << level) for level in levels]
        down = [_level_down(npus, 1 << level) for level in levels]
        return tuple(Step(table, Fraction(1, 2)) for table in up + down[::-1])


def parent(rank: int, npus: int) -> int:
    """Return the parent of `rank` > 0 in the first tree: the lowest set bit cleared and the next one set."""
    bit = rank & -rank
    above = (rank ^ bit) | (bit << 1)
    return above if above < npus else 0


def _level_up(npus: int, bit: int) -> Table:
    """Return the messages to the parents from the ranks of lowest set bit `bit`, in both trees."""
    first = [-1] * npus
    for rank in range(bit, npus, 2 * bit):
        first[rank] = parent(rank, npus)
    return Table((tuple(first), _mirrored(first)))


def _level_down(npus: int, bit: int) -> Table:
    """Return the messages from the parents to the ranks of lowest set bit `bit`, in both trees."""
    left, right = [-1] * npus, [-1] * npus
    for rank in range(bit, npus, 2 * bit):
        above = parent(rank, npus)
        (left if left[above] < 0 else right)[above] = rank
    return Table((tuple(left), tuple(right), _mirrored(left), _mirrored(right)))


def _mirrored(row: list[int]) -> tuple[int, ...]:
    """Return the row of the second tree: rank n - 1 - r plays rank r."""
    return tuple(-1 if target < 0 else len(row) - 1 - target for target in reversed(row))


ALGORITHMS.register(DoubleBinaryTree.name)(DoubleBinaryTree())
