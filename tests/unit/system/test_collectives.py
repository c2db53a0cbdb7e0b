"""Step lists are executed on sets of contributions: what arrives must be the collective, nothing added twice."""

from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest

from cosmic_opt.errors import InfeasibleError, SpecError
from cosmic_opt.system.collectives import ALGORITHMS, COLLECTIVES, Step
from cosmic_opt.system.collectives.double_binary_tree import parent

Piece = tuple[int, int]
"""A piece of the buffer: the half (ring direction or tree) and the rank whose n-th it is."""

State = list[dict[Piece, frozenset[int]]]
"""Per rank, whose contributions each piece that it holds contains."""

Rule = Callable[[int, int, int, int], list[Piece]]
"""Maps (step number, message row, sender, receiver) to the pieces sent."""


def expanded(steps: tuple[Step, ...]) -> Iterator[Step]:
    for step in steps:
        yield from (step,) * step.repeat


def execute(
    steps: Iterator[Step], state: State, rule: Rule, piece_share: Fraction, *, add: Callable[[int], bool]
) -> None:
    """Run the steps; in step k received pieces are added where `add(k)`, else they replace what is there."""
    npus = len(state)
    for number, step in enumerate(steps):
        before = [dict(pieces) for pieces in state]
        for row, targets in enumerate(step.peers.targets(npus).tolist()):
            for sender, receiver in enumerate(targets):
                if receiver < 0:
                    continue
                pieces = rule(number, row, sender, receiver)
                assert len(pieces) * piece_share == step.share
                for piece in pieces:
                    held = state[receiver].get(piece, frozenset())
                    if add(number):
                        assert not held & before[sender][piece], "a contribution would be added twice"
                        state[receiver][piece] = held | before[sender][piece]
                    else:
                        state[receiver][piece] = before[sender][piece]


def all_ones(npus: int, halves: int) -> State:
    return [
        {(half, piece): frozenset({rank}) for half in range(halves) for piece in range(npus)} for rank in range(npus)
    ]


def own_pieces(npus: int, halves: int) -> State:
    everyone = frozenset(range(npus))
    return [{(half, rank): everyone for half in range(halves)} for rank in range(npus)]


def ring_rule(start: int) -> Callable[[int], Rule]:
    """The piece that a rank passes on in step t started t ranks behind it, `start` ranks from its owner."""

    def at(npus: int) -> Rule:
        def rule(step: int, row: int, sender: int, receiver: int) -> list[Piece]:
            way = 1 if row == 0 else -1
            return [(row, (sender - way * (step + start)) % npus)]

        return rule

    return at


@pytest.mark.parametrize("npus", range(2, 17))
def test_ring_steps_reduce_scatter_and_all_gather(npus: int) -> None:
    ring = ALGORITHMS.get("ring")
    share = Fraction(1, 2 * npus)
    state = all_ones(npus, 2)
    execute(expanded(ring.steps("reduce_scatter", npus)), state, ring_rule(1)(npus), share, add=lambda _: True)
    everyone = frozenset(range(npus))
    assert all(state[rank][half, rank] == everyone for rank in range(npus) for half in (0, 1))
    state = own_pieces(npus, 2)
    execute(expanded(ring.steps("all_gather", npus)), state, ring_rule(0)(npus), share, add=lambda _: False)
    assert all(len(pieces) == 2 * npus and set(pieces.values()) == {everyone} for pieces in state)


@pytest.mark.parametrize("npus", range(2, 17))
def test_direct_steps_reduce_scatter_and_all_gather(npus: int) -> None:
    direct, share, everyone = ALGORITHMS.get("direct"), Fraction(1, npus), frozenset(range(npus))
    state = all_ones(npus, 1)
    steps = expanded(direct.steps("reduce_scatter", npus))
    execute(steps, state, lambda _, __, ___, receiver: [(0, receiver)], share, add=lambda _: True)
    assert all(state[rank][0, rank] == everyone for rank in range(npus))
    state = own_pieces(npus, 1)
    steps = expanded(direct.steps("all_gather", npus))
    execute(steps, state, lambda _, __, sender, ___: [(0, sender)], share, add=lambda _: False)
    assert all(len(pieces) == npus for pieces in state)


@pytest.mark.parametrize("npus", [2, 4, 8, 16])
def test_halving_doubling_steps_reduce_scatter_and_all_gather(npus: int) -> None:
    algorithm, share, everyone = ALGORITHMS.get("halving_doubling"), Fraction(1, npus), frozenset(range(npus))

    def halve(step: int, row: int, sender: int, receiver: int) -> list[Piece]:
        """All that is still held and whose bit `step` is the receiver's."""
        low = (1 << (step + 1)) - 1
        return [(0, piece) for piece in range(npus) if piece & low == receiver & low]

    state = all_ones(npus, 1)
    steps = expanded(algorithm.steps("reduce_scatter", npus))
    execute(steps, state, halve, share, add=lambda _: True)
    assert all(state[rank][0, rank] == everyone for rank in range(npus))

    state = own_pieces(npus, 1)

    def gathered(step: int, row: int, sender: int, receiver: int) -> list[Piece]:
        levels = npus.bit_length() - 1
        low = (1 << (levels - step)) - 1
        return [(0, piece) for piece in range(npus) if piece & low == sender & low]

    steps = expanded(algorithm.steps("all_gather", npus))
    execute(steps, state, gathered, share, add=lambda _: False)
    assert all(len(pieces) == npus for pieces in state)


@pytest.mark.parametrize("npus", [2, 4, 8, 16, 32])
def test_double_binary_trees_reduce_to_their_roots_and_broadcast(npus: int) -> None:
    steps = list(expanded(ALGORITHMS.get("double_binary_tree").steps("all_reduce", npus)))
    levels = npus.bit_length() - 1
    assert len(steps) == 2 * levels
    state: State = [{(tree, 0): frozenset({rank}) for tree in (0, 1)} for rank in range(npus)]

    def whole_half(step: int, row: int, sender: int, receiver: int) -> list[Piece]:
        rows_per_tree = 1 if step < levels else 2
        return [(row // rows_per_tree, 0)]

    execute(iter(steps), state, whole_half, Fraction(1, 2), add=lambda step: step < levels)
    everyone = frozenset(range(npus))
    assert all(pieces == {(0, 0): everyone, (1, 0): everyone} for pieces in state)


def test_a_leaf_of_one_tree_is_an_inner_node_or_root_of_the_other() -> None:
    npus = 16
    inner = {parent(rank, npus) for rank in range(1, npus)}
    mirrored = {npus - 1 - rank for rank in inner}
    assert inner | mirrored == set(range(npus))
    assert not inner & mirrored


def test_a_tree_of_eight_has_its_only_child_of_the_root_in_the_middle() -> None:
    assert [parent(rank, 8) for rank in range(1, 8)] == [2, 4, 2, 0, 6, 4, 6]


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_all_to_all_brings_every_item_to_its_owner_in_one_step(algorithm: str) -> None:
    (step,) = ALGORITHMS.get(algorithm).steps("all_to_all", 8)
    targets = step.peers.targets(8)
    assert step.share == Fraction(1, 8)
    assert all(set(targets[:, rank].tolist()) == set(range(8)) - {rank} for rank in range(8))


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_group_of_one_has_no_steps(algorithm: str, collective: str) -> None:
    assert ALGORITHMS.get(algorithm).steps(collective, 1) == ()


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("algorithm", ["halving_doubling", "double_binary_tree"])
def test_recursive_algorithms_refuse_other_than_powers_of_two(algorithm: str, collective: str) -> None:
    with pytest.raises(InfeasibleError, match="power of two") as caught:
        ALGORITHMS.get(algorithm).steps(collective, 6)
    assert caught.value.hint


def test_trees_scatter_and_gather_as_halving_doubling_does() -> None:
    tree, halving = ALGORITHMS.get("double_binary_tree"), ALGORITHMS.get("halving_doubling")
    for collective in ("reduce_scatter", "all_gather"):
        assert tree.steps(collective, 16) == halving.steps(collective, 16)


def test_an_unknown_collective_is_refused() -> None:
    with pytest.raises(SpecError, match="all_reduce"):
        ALGORITHMS.get("ring").steps("all-reduce", 4)
