/**
 * Reads a run of series as they are expected, as WebAssembly: JavaScript checks each of the ten words that a series' labels have, and each byte of its sample,
 * against the bounds of its array. Decision 097.
 *
 * The request lies in one memory, the keys and the list of what is expected in another. A series is taken when its labels are the key and what follows them is one plain
 * sample with a finite value (plain-sample.ts); anything else ends the run.
 */

import {
  above,
  add,
  again,
  and,
  any,
  atLeast,
  below,
  differences,
  either,
  equal,
  type GrowingMemory,
  get,
  give,
  int,
  load8,
  load16Bytes,
  load32,
  loop,
  moduleOf,
  or,
  type SharedMemory,
  set,
  shl,
  shr,
  store32,
  sub,
  unequal,
  webAssembly,
  when,
} from 'svcdb/lib/web-assembly'
import { CONTINUED, EXPONENT, PLAIN_BYTES, PLAIN_FIELD_BYTES, SAMPLE_TAG, TIME_TAG, VALUE_TAG } from './plain-sample.ts'

/** Keys are compared by so many bytes, the last ones overlapping: no key is shorter. */
export const STEP_BYTES = 32
/** An entry of the list: address and length of a key, which a run replaces by the value, low and high half, and the time, 28 bits and 14. */
export const ENTRY_BYTES = 16

const REQUEST = 0
const KEYS = 1

// Locals, the parameters first.
const AT = 0
const END = 1
const ENTRY = 2
const LAST = 3
const FIRST = 4
const START = 5
const LENGTH = 6
const KEY = 7
const KEY_LENGTH = 8
const SAMPLE = 9
const FROM = 10
const HIGH = 11
const WORD = 12
const FIFTH = 13
const SIXTH = 14

/** Field 1, length-delimited: of the request a series. */
export const SERIES_TAG = 0x0a

const step = (local: number, by: readonly number[]) => set(local, add(get(local), by))
/** Where the run has ended goes behind the list. */
const done = [store32(get(LAST), get(AT), 0, KEYS), give(shr(sub(get(ENTRY), get(FIRST)), int(4)))]
const doneIf = (condition: readonly number[]) => when(condition, done)

const header = [
  doneIf(or(atLeast(get(ENTRY), get(LAST)), above(add(get(AT), int(3)), get(END)))),
  doneIf(unequal(load8(get(AT), 0, REQUEST), int(SERIES_TAG))),
  set(LENGTH, load8(get(AT), 1, REQUEST)),
  set(START, add(get(AT), int(2))),
  when(atLeast(get(LENGTH), int(0x80)), [
    set(WORD, load8(get(AT), 2, REQUEST)),
    doneIf(atLeast(get(WORD), int(0x80))),
    set(LENGTH, or(and(get(LENGTH), int(0x7f)), shl(get(WORD), int(7)))),
    step(START, int(1)),
  ]),
  set(KEY_LENGTH, load32(get(ENTRY), 4, KEYS)),
  doneIf(or(unequal(get(LENGTH), add(get(KEY_LENGTH), int(PLAIN_FIELD_BYTES))), above(add(get(START), get(LENGTH)), get(END)))),
]

const halves = (offset: number) => differences(load16Bytes(get(FROM), offset, REQUEST), load16Bytes(get(KEY), offset, KEYS))
/** The last step, at which FROM is SAMPLE - STEP_BYTES, may overlap the one before it. */
const labels = [
  set(SAMPLE, add(get(START), get(KEY_LENGTH))),
  set(KEY, load32(get(ENTRY), 0, KEYS)),
  set(FROM, get(START)),
  loop(
    doneIf(any(either(halves(0), halves(16)))),
    when(below(add(get(FROM), int(STEP_BYTES)), get(SAMPLE)), [
      step(FROM, int(STEP_BYTES)),
      step(KEY, int(STEP_BYTES)),
      set(WORD, sub(get(SAMPLE), int(STEP_BYTES))),
      when(above(get(FROM), get(WORD)), [set(KEY, sub(get(KEY), sub(get(FROM), get(WORD)))), set(FROM, get(WORD))]),
      again(1),
    ]),
  ),
]

const TAGS = SAMPLE_TAG | (PLAIN_BYTES << 8) | (VALUE_TAG << 16)
const sample = [
  doneIf(unequal(and(load32(get(SAMPLE), 0, REQUEST), int(0xffffff)), int(TAGS))),
  set(HIGH, load32(get(SAMPLE), 7, REQUEST)),
  doneIf(equal(and(get(HIGH), int(EXPONENT)), int(EXPONENT))),
  doneIf(unequal(load8(get(SAMPLE), 11, REQUEST), int(TIME_TAG))),
  set(WORD, load32(get(SAMPLE), 12, REQUEST)),
  set(FIFTH, load8(get(SAMPLE), 16, REQUEST)),
  set(SIXTH, load8(get(SAMPLE), 17, REQUEST)),
  doneIf(or(unequal(and(get(WORD), int(CONTINUED)), int(CONTINUED)), or(below(get(FIFTH), int(0x80)), atLeast(get(SIXTH), int(0x80))))),
]

const bits = (shift: number, mask: number) => and(shr(get(WORD), int(shift)), int(mask))
const results = [
  store32(get(ENTRY), load32(get(SAMPLE), 3, REQUEST), 0, KEYS),
  store32(get(ENTRY), get(HIGH), 4, KEYS),
  store32(get(ENTRY), or(or(bits(0, 0x7f), bits(1, 0x3f80)), or(bits(2, 0x1fc000), bits(3, 0xfe00000))), 8, KEYS),
  store32(get(ENTRY), or(and(get(FIFTH), int(0x7f)), shl(get(SIXTH), int(7))), 12, KEYS),
  step(ENTRY, int(ENTRY_BYTES)),
  set(AT, add(get(START), get(LENGTH))),
]

const body = [set(FIRST, get(ENTRY)), loop(...header, ...labels, ...sample, ...results, again(0)), int(0)]

/** @returns how many series were taken, one after the other; where they end is then at `last`. All are addresses: the request's [at, end), the list's [entry, last). */
export type Run = (at: number, end: number, entry: number, last: number) => number

/** The module for memories of these sizes: one is compiled for all namespaces. */
let compiled: { requestPages: number; keyPages: number; module: object } | undefined

/** @param requestPages @param keyPages what each memory may have at most, as it was made. @returns undefined where there is no such code. */
export function runIn(request: SharedMemory, requestPages: number, keys: GrowingMemory, keyPages: number): Run | undefined {
  if (webAssembly === undefined) return undefined
  try {
    if (compiled?.requestPages !== requestPages || compiled.keyPages !== keyPages) {
      const memories = [
        { name: ['memory', 'request'] as const, maxPages: requestPages, shared: true },
        { name: ['memory', 'keys'] as const, maxPages: keyPages, shared: false },
      ]
      const module = new webAssembly.Module(moduleOf({ name: 'run', parameters: 4, locals: 11, memories, body }))
      compiled = { requestPages, keyPages, module }
    }
    return new webAssembly.Instance(compiled.module, { memory: { request, keys } }).exports.run as Run
  } catch {
    return undefined
  }
}
