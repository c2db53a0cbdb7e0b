"""The compiled part: what NPUs do when endpoint work is done or a message arrives, and how messages travel.

A stream opens a window of packets. A packet whose endpoint work is done frees one send; a received message inserts
the next packet. The k-th messages of two peers match; one is received when it is there and its receive is posted,
which happens with the k-th send. Source: ASTRA-sim, Ring.cc and AllToAll.cc of its system layer.
"""

from __future__ import annotations

from cosmic_opt.simulation.analytical._jit import jit
from cosmic_opt.simulation.collective.astra_sim.aware.state import (
    ARRIVED,
    CHUNK,
    CHUNKS,
    DOWN,
    EARLY,
    EXCHANGE,
    FIRST_TREE,
    FLAGS,
    FREE,
    FREE_MESSAGES,
    FULLY_CONNECTED,
    GATE,
    HEAP,
    HOP,
    HOPS,
    INSERTED,
    INSTANCE,
    KIND,
    LEFT,
    MEMBERS,
    NEXT,
    NODE,
    NPU,
    OFFSETS,
    OUTPUT_TIME,
    OUTPUTS,
    PENDING,
    PERIOD,
    POSITION,
    PREPARED,
    PROGRAM,
    RECEIVED,
    RING,
    ROWS,
    SENDS,
    SENT,
    SERVERS,
    SIZE,
    SIZES,
    STARTED,
    STEP,
    STREAMS,
    SUBJECT,
    SWITCH,
    TARGET,
    TIME,
    TREE,
    TREE_DONE,
    TREE_FORWARD,
    TREE_REDUCED,
    TREE_UP,
    TURN,
    UP,
    WAITING,
    WINDOW,
    WORK,
    State,
    drop_first,
    push,
    report,
)
from cosmic_opt.simulation.collective.astra_sim.aware.state import EVENT as EVENT_COLUMN

NO_LIMIT = -1
DONE, FULL = 0, 1
"""How `advance` ends: nothing left to do before the limit or the next time, or an array is full."""
SPARE = 16


@jit
def launch(state: State, source: int, target: int, size: int, stream: int, turn: int, now: int) -> None:
    """Send a message from one NPU to another by the shortest way; a ring's tie goes upwards."""
    count = state.meta[FREE_MESSAGES] - 1
    state.meta[FREE_MESSAGES] = count
    message = state.free[count]
    topology, npus = state.network[0], state.network[1]
    step, hops = target - source, 1
    if topology == RING:
        ahead = (target - source) % npus
        step, hops = 1, ahead
        if npus - ahead < ahead:
            step, hops = -1, npus - ahead
    elif topology == SWITCH:
        step, hops = target, 2
    fields = state.messages[message]
    fields[NODE] = source
    fields[STEP] = step
    fields[HOPS] = hops
    fields[SIZE] = size
    fields[TARGET] = stream
    fields[TURN] = turn
    _transmit(state, message, now)


@jit
def _transmit(state: State, message: int, now: int) -> None:
    """Queue a message on the next link of its route."""
    fields = state.messages[message]
    topology, npus = state.network[0], state.network[1]
    if topology == RING:
        link = 2 * fields[NODE] + (1 if fields[STEP] > 0 else 0)
        fields[NODE] = (fields[NODE] + fields[STEP]) % npus
    elif topology == FULLY_CONNECTED:
        link = fields[NODE] * npus + fields[NODE] + fields[STEP]
    else:
        link = fields[NODE] if fields[HOPS] > 1 else npus + fields[STEP]
    fields[HOPS] -= 1
    serialisation = fields[SIZE] / state.rates[0]
    start = max(now, state.links[link])
    state.links[link] = start + int(serialisation)
    push(state, start + int(state.rates[1] + serialisation), HOP, message)


@jit
def start_row(state: State, instance: int, position: int, now: int) -> None:
    """One NPU issues a collective: its first chunks start, as many as it has servers."""
    for _ in range(state.instances[instance, SERVERS]):
        _start_next(state, instance, position, now)


@jit
def _start_next(state: State, instance: int, position: int, now: int) -> None:
    row = state.instances[instance, ROWS] + position
    chunk = state.rows[row, NEXT]
    state.rows[row, NEXT] = chunk + 1
    stream = state.instances[instance, STREAMS] + position * state.instances[instance, CHUNKS] + chunk
    fields = state.streams[stream]
    program = state.programs[state.instances[instance, PROGRAM]]
    if program[KIND] != TREE:
        for _ in range(program[WINDOW]):
            _insert(state, stream, now)
        return
    fields[STARTED] = 1
    if fields[PENDING] == 0:
        push(state, now + state.pool[program[WORK]], TREE_UP, stream)
    for _ in range(fields[EARLY]):
        push(state, now + state.pool[program[WORK] + 1], TREE_REDUCED, stream)


@jit
def _insert(state: State, stream: int, now: int) -> None:
    """Prepare one more packet: its endpoint work depends on how many came before."""
    fields = state.streams[stream]
    program = state.programs[state.instances[fields[INSTANCE], PROGRAM]]
    work = state.pool[program[WORK] + fields[INSERTED]]
    fields[INSERTED] += 1
    fields[WAITING] += 1
    push(state, now + work, PREPARED, stream)


@jit
def _prepared(state: State, stream: int, now: int) -> None:
    fields = state.streams[stream]
    program = state.programs[state.instances[fields[INSTANCE], PROGRAM]]
    fields[FREE] += 1
    tries = 1
    if program[GATE] and program[SENDS] - fields[SENT] <= program[GATE]:
        if fields[ARRIVED] < program[GATE]:
            return
        tries = program[WINDOW]
    for _ in range(tries):
        if fields[WAITING] > 0 and fields[SENT] < program[SENDS] and fields[FREE] > 0:
            _send(state, stream, now)
    if fields[SENT] == program[SENDS] and fields[FREE] == program[WINDOW]:
        _finish(state, stream, now)


@jit
def _send(state: State, stream: int, now: int) -> None:
    """Send to the peer of this turn and post the receive of the same turn."""
    fields = state.streams[stream]
    instance = state.instances[fields[INSTANCE]]
    program = state.programs[instance[PROGRAM]]
    turn = fields[SENT]
    fields[SENT] += 1
    fields[WAITING] -= 1
    fields[FREE] -= 1
    offset = state.pool[program[OFFSETS] + turn % program[PERIOD]]
    size = state.pool[program[SIZES] + (turn if program[KIND] == EXCHANGE else 0)]
    peer = fields[POSITION] ^ offset if program[KIND] == EXCHANGE else (fields[POSITION] + offset) % instance[MEMBERS]
    _send_to(state, stream, peer, size, turn, now)
    if state.arrived[_flag(state, stream, turn)]:
        push(state, now, RECEIVED, stream)


@jit
def _send_to(state: State, stream: int, peer: int, size: int, turn: int, now: int) -> None:
    fields = state.streams[stream]
    instance = state.instances[fields[INSTANCE]]
    source = state.rows[instance[ROWS] + fields[POSITION], NPU]
    target = state.rows[instance[ROWS] + peer, NPU]
    other = instance[STREAMS] + peer * instance[CHUNKS] + fields[CHUNK]
    launch(state, source, target, size, other, turn, now)


@jit
def _flag(state: State, stream: int, turn: int) -> int:
    """Return the place of the flag that says that the message of `turn` is there before its receive."""
    instance = state.instances[state.streams[stream, INSTANCE]]
    sends = state.programs[instance[PROGRAM], SENDS]
    return int(instance[FLAGS] + (stream - instance[STREAMS]) * sends + turn)


@jit
def _finish(state: State, stream: int, now: int) -> None:
    """A chunk is finished on one NPU: the next one starts there, or the NPU is done with the collective."""
    fields = state.streams[stream]
    instance = fields[INSTANCE]
    row = state.instances[instance, ROWS] + fields[POSITION]
    state.rows[row, LEFT] -= 1
    if state.rows[row, NEXT] < state.instances[instance, CHUNKS]:
        _start_next(state, instance, fields[POSITION], now)
    elif state.rows[row, LEFT] == 0:
        program = state.programs[state.instances[instance, PROGRAM]]
        last = 0 if program[KIND] == TREE else fields[INSERTED] - 1
        report(state, now, state.pool[program[WORK] + last], row, -1)


@jit
def _arrive(state: State, message: int, now: int) -> None:
    """A message has made its last hop."""
    stream, turn = state.messages[message, TARGET], state.messages[message, TURN]
    state.free[state.meta[FREE_MESSAGES]] = message
    state.meta[FREE_MESSAGES] += 1
    if stream < 0:
        hop = int(state.rates[1] + state.messages[message, SIZE] / state.rates[0])
        report(state, now, hop, -1, turn)
        return
    fields = state.streams[stream]
    if turn >= 0:
        if fields[SENT] > turn:
            fields[ARRIVED] += 1
            _insert(state, stream, now)
        else:
            state.arrived[_flag(state, stream, turn)] = 1
        return
    program = state.programs[state.instances[fields[INSTANCE], PROGRAM]]
    delay, work = state.pool[program[WORK]], state.pool[program[WORK] + 1]
    if turn == DOWN:
        if _rank(state, stream) & 1:
            push(state, now + delay, TREE_DONE, stream)
        else:
            push(state, now + work, TREE_FORWARD, stream)
    elif fields[STARTED]:
        push(state, now + work, TREE_REDUCED, stream)
    else:
        fields[EARLY] += 1


@jit
def _rank(state: State, stream: int) -> int:
    """Return a stream's place in its tree, 0 the root; the two trees mirror each other and take turns."""
    fields = state.streams[stream]
    instance = state.instances[fields[INSTANCE]]
    if (instance[FIRST_TREE] + fields[CHUNK]) % 2 == 1:
        return int(fields[POSITION])
    return int(instance[MEMBERS] - 1 - fields[POSITION])


@jit
def _tree_send(state: State, stream: int, rank: int, turn: int, now: int) -> None:
    """Send the whole chunk to the NPU of place `rank` in the tree."""
    fields = state.streams[stream]
    instance = state.instances[fields[INSTANCE]]
    peer = rank
    if (instance[FIRST_TREE] + fields[CHUNK]) % 2 == 0:
        peer = instance[MEMBERS] - 1 - rank
    size = state.pool[state.programs[instance[PROGRAM], SIZES]]
    _send_to(state, stream, peer, size, turn, now)


@jit
def _tree_up(state: State, stream: int, now: int) -> None:
    """All children's messages are reduced: pass the sum on, or, at the root, send it down."""
    rank = _rank(state, stream)
    members = state.instances[state.streams[stream, INSTANCE], MEMBERS]
    if rank == 0:
        _tree_send(state, stream, members >> 1, DOWN, now)
        _finish(state, stream, now)
        return
    program = state.programs[state.instances[state.streams[stream, INSTANCE], PROGRAM]]
    _tree_send(state, stream, state.pool[program[OFFSETS] + rank], UP, now)


@jit
def _tree_forward(state: State, stream: int, now: int) -> None:
    rank = _rank(state, stream)
    half = (rank & -rank) >> 1
    _tree_send(state, stream, rank - half, DOWN, now)
    _tree_send(state, stream, rank + half, DOWN, now)
    _finish(state, stream, now)


@jit
def _stream_event(state: State, event: int, stream: int, now: int) -> None:
    if event == PREPARED:
        _prepared(state, stream, now)
    elif event == RECEIVED:
        state.streams[stream, ARRIVED] += 1
        _insert(state, stream, now)
    elif event == TREE_REDUCED:
        state.streams[stream, PENDING] -= 1
        if state.streams[stream, PENDING] == 0:
            _tree_up(state, stream, now)
    elif event == TREE_UP:
        _tree_up(state, stream, now)
    elif event == TREE_FORWARD:
        _tree_forward(state, stream, now)
    else:
        _finish(state, stream, now)


@jit
def advance(state: State, limit: int, widest: int) -> int:
    """Run events up to `limit`, and stop behind the first time at which something was put out.

    `widest` is the largest window of any program: one event adds at most twice as many events or messages.
    """
    spare = 2 * widest + SPARE
    while state.meta[HEAP] > 0:
        now = state.heap[0, TIME]
        if limit != NO_LIMIT and now > limit:
            return DONE
        if state.meta[OUTPUTS] > 0 and now > state.meta[OUTPUT_TIME]:
            return DONE
        if (
            len(state.heap) - state.meta[HEAP] < spare
            or state.meta[FREE_MESSAGES] < spare
            or len(state.outputs) - state.meta[OUTPUTS] < SPARE
        ):
            return FULL
        event, subject = state.heap[0, EVENT_COLUMN], state.heap[0, SUBJECT]
        drop_first(state)
        if event != HOP:
            _stream_event(state, event, subject, now)
        elif state.messages[subject, HOPS] > 0:
            _transmit(state, subject, now)
        else:
            _arrive(state, subject, now)
    return DONE
