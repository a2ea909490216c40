/**
 * What `fill` does, as WebAssembly: a quarter of its time (block.bench.ts), since vectors of 16 bytes are moved without a check each, and an element's
 * kind, length and offset are computed without a jump. Decision 059.
 *
 * Reads up to READ_SLACK bytes beyond the block and writes up to WRITE_SLACK beyond what it decodes to; says only whether the block is good.
 */
import {
  above,
  add,
  again,
  againIf,
  and,
  atLeast,
  below,
  choose,
  equal,
  get,
  give,
  int,
  load8,
  load32,
  loop,
  moduleOf,
  move16,
  moveMany,
  or,
  type SharedMemory,
  set,
  shl,
  shr,
  store8,
  sub,
  unequal,
  webAssembly,
  when,
} from '../web-assembly/index.ts'

export const READ_SLACK = 16
export const WRITE_SLACK = 64
const GOOD = 0
const BAD = 1

/** @returns GOOD or BAD. All are addresses, but for the last: `end` of the block, `length` of what it decodes to. */
type Fill = (at: number, end: number, out: number, length: number) => number

// Locals, the parameters first.
const AT = 0
const END = 1
const OUT = 2
const LENGTH = 3
const TO = 4
const STOP = 5
const TAG = 6
const SIZE = 7
const BACK = 8
const FROM = 9
/** 1 for a copy whose offset has one byte more, 0 for two. */
const SHORT = 10

const step = (local: number, by = int(1)) => set(local, add(get(local), by))
const kind = and(get(TAG), int(3))
const longSize = add(shr(get(TAG), int(2)), int(1))

/** Tag, offset and length of a copy, whose tag has been read. */
const copyHead = [
  set(BACK, load32(get(AT), 1)),
  when(
    equal(kind, int(3)),
    [set(SIZE, longSize), step(AT, int(5))],
    [
      set(SHORT, and(get(TAG), int(1))),
      set(SIZE, choose(add(and(shr(get(TAG), int(2)), int(7)), int(4)), longSize, get(SHORT))),
      set(BACK, choose(or(shl(and(get(TAG), int(0xe0)), int(3)), and(get(BACK), int(0xff))), and(get(BACK), int(0xffff)), get(SHORT))),
      set(AT, sub(add(get(AT), int(3)), get(SHORT))),
    ],
  ),
  // No offset, or one before the first byte: less one it is at least what there is.
  when(or(or(above(get(AT), get(END)), atLeast(sub(get(BACK), int(1)), sub(get(TO), get(OUT)))), above(get(SIZE), sub(get(STOP), get(TO)))), [give(int(BAD))]),
]

/** 64 bytes at most. One vector after the other: a copy may read what it has written. */
const copyBytes = [
  set(FROM, sub(get(TO), get(BACK))),
  when(
    atLeast(get(BACK), int(16)),
    [
      move16(get(TO), get(FROM), 0),
      move16(get(TO), get(FROM), 16),
      when(above(get(SIZE), int(32)), [move16(get(TO), get(FROM), 32), move16(get(TO), get(FROM), 48)]),
      step(TO, get(SIZE)),
    ],
    [step(SIZE, get(TO)), loop(store8(get(TO), load8(get(FROM))), step(TO), step(FROM), againIf(below(get(TO), get(SIZE))))],
  ),
]

const literal = [
  step(AT),
  set(SIZE, longSize),
  when(above(get(SIZE), int(60)), [
    set(FROM, sub(get(SIZE), int(60))), // bytes of the length
    when(above(get(FROM), sub(get(END), get(AT))), [give(int(BAD))]),
    set(SIZE, add(and(load32(get(AT)), shr(int(-1), sub(int(32), shl(get(FROM), int(3))))), int(1))),
    step(AT, get(FROM)),
  ]),
  // The largest length there is, plus one, is 0 here.
  when(or(atLeast(sub(get(SIZE), int(1)), sub(get(END), get(AT))), above(get(SIZE), sub(get(STOP), get(TO)))), [give(int(BAD))]),
  when(above(get(SIZE), int(16)), [moveMany(get(TO), get(AT), get(SIZE))], [move16(get(TO), get(AT), 0)]),
  step(AT, get(SIZE)),
  step(TO, get(SIZE)),
]

const body = [
  // The length, which the caller has read.
  loop(set(TAG, load8(get(AT))), step(AT), againIf(atLeast(get(TAG), int(0x80)))),
  set(TO, get(OUT)),
  set(STOP, add(get(OUT), get(LENGTH))),
  loop(
    when(atLeast(get(AT), get(END)), [give(unequal(get(TO), get(STOP)))]),
    set(TAG, load8(get(AT))),
    when(kind, [...copyHead, ...copyBytes, again(1)]),
    ...literal,
    again(0),
  ),
  int(BAD), // never reached
]

/** @returns whether the block in memory [at, end) is good, which has begun with the length given; it is decoded to `out`. */
export type FillIn = (at: number, end: number, out: number, length: number) => boolean

/** @param maxPages of 64 KiB, as the memory was made. @returns undefined where this processor, or the way Node.js was started, has no such code. */
export function fillIn(memory: SharedMemory, maxPages: number): FillIn | undefined {
  if (webAssembly === undefined) return undefined
  const parts = { name: 'fill', parameters: 4, locals: 7, memories: [{ name: ['memory', 'shared'] as const, maxPages, shared: true }], body }
  try {
    const { exports } = new webAssembly.Instance(new webAssembly.Module(moduleOf(parts)), { memory: { shared: memory } })
    const fill = exports.fill as Fill
    return (at, end, out, length) => fill(at, end, out, length) === GOOD
  } catch {
    return undefined
  }
}
