/**
 * Range queries that go on from the steps of an earlier one: a panel that follows the clock asks for the same steps again and some new ones. What an earlier query has kept
 * holds for the steps that no change has touched since; the others are evaluated. docs/decisions/103-partial-results.md.
 */
import type { PartialResult } from 'svcdb'
import type { Expr } from './ast.ts'
import { Annotations } from './eval/annotations.ts'
import { type EvalContext, Pacer, vectorBytes } from './eval/context.ts'
import { evaluate } from './eval/evaluate.ts'
import { stepReach } from './eval/step-reach.ts'
import type { MatrixValue, Steps, Value, VectorValue } from './eval/value.ts'
import { ABSENT } from './eval/value.ts'
import { LabelList, type LabelSets, Labels } from './labels.ts'

const NS_PER_MS = 1_000_000n
/** Of the values: the first step's time, the number of steps, and of series; then values, kinds, and the labels and annotations as JSON. */
const HEAD_BYTES = 24
const CELL_BYTES = 9
/** Of a text in a list of JSON: its quotes. */
const QUOTES = 2
/** Labels are written and read in one turn of the thread: about 20 ms. */
const MOST_TEXT_BYTES = 1 << 20

/** Values of floats only, at steps `start`, `start + interval` ... of a query whose interval is known. */
export interface KeptSteps {
  start: number
  value: VectorValue
  /** That came with them (Annotations.keys). */
  annotations: string[]
  /** Labels of the value and annotations as they are written. Absent: not yet. */
  texts?: Uint8Array
}

/** As `evaluate`; only what is not kept is evaluated. */
export async function evaluateSteps(expr: Expr, steps: Steps, context: EvalContext, partial: PartialResult | undefined): Promise<Value | MatrixValue> {
  // A function may do with a single step what it does not with several: sort() warns of these.
  const reach = partial === undefined || steps.interval === 0 || steps.count === 1 ? undefined : stepReach(expr, context.lookbackMs)
  if (partial === undefined || reach === undefined) return evaluate(expr, steps, context)
  const kept = partial.bytes === undefined ? undefined : decodeSteps(partial.bytes)
  const held = kept === undefined ? 0 : heldSteps(kept, steps, partial.changed, reach)
  const from = kept === undefined || held === 0 ? undefined : await goOn(expr, steps, context, kept, held)
  const value = from ?? (await evaluate(expr, steps, context))
  const annotations = context.annotations.keys
  // Histograms are not kept, and no counts of samples.
  if (value.type !== 'vector' || value.histograms !== undefined || annotations === undefined || context.source.beyondSteps === true) return value
  if (kept !== undefined && value === kept.value) {
    if (partial.changed.length > 0) partial.keep(partial.bytes!)
    return value
  }
  const texts = kept !== undefined && value.labels === kept.value.labels && sameTexts(annotations, kept.annotations) ? kept.texts : undefined
  const bytes = encodeSteps({ start: steps.start, value, annotations, texts }, partial.maxBytes)
  if (bytes !== undefined) partial.keep(bytes)
  return value
}

function sameTexts(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((text, i) => text === b[i])
}

/** As `restOf`, and what it has taken of the budget goes back where all steps are evaluated after it. */
async function goOn(expr: Expr, steps: Steps, context: EvalContext, kept: KeptSteps, held: number): Promise<VectorValue | undefined> {
  const { budget } = context
  const before = budget.bytes
  const value = await restOf(expr, steps, context, kept, held)
  if (value === undefined) budget.give(budget.bytes - before)
  return value
}

/** Evaluates what comes after the first `held` steps. @returns undefined where the kept ones have to be evaluated as well. */
async function restOf(expr: Expr, { start, interval, count }: Steps, context: EvalContext, kept: KeptSteps, held: number): Promise<VectorValue | undefined> {
  const { budget, signal, source } = context
  const annotations = new Annotations()
  const rest = { start: start + held * interval, interval, count: count - held }
  const value = rest.count === 0 ? NOTHING : await evaluate(expr, rest, { ...context, annotations })
  if (value.type !== 'vector' || value.histograms !== undefined || source.beyondSteps === true) return undefined
  // Whether an annotation that does not come up again is about a step that is still asked for is not known.
  // Each of thousands of metrics may have one.
  const again = new Set(annotations.keys)
  if (!kept.annotations.every((key) => again.has(key))) return undefined
  // The very steps that are kept.
  if (rest.count === 0 && kept.start === start && kept.value.steps === count) return kept.value
  // For a moment it is there twice: what has room by itself is not refused for that.
  const bytes = vectorBytes(kept.value.labels.length + value.labels.length, count, false)
  if (bytes > budget.left) return undefined
  budget.take(bytes)
  context.annotations.takeOver(annotations)
  return joined(kept, (start - kept.start) / interval, held, value, count, new Pacer(signal))
}

const NOTHING: VectorValue = { type: 'vector', labels: new LabelList([]), steps: 0, values: new Float64Array(0), kinds: new Uint8Array(0) }

/** Of the steps wanted, those from the first on that are kept and that no change touches. */
export function heldSteps(kept: KeptSteps, { start, interval, count }: Steps, changed: PartialResult['changed'], reach: number): number {
  const from = (start - kept.start) / interval
  if (!Number.isInteger(from) || from < 0) return 0
  let held = Math.max(0, Math.min(count, kept.value.steps - from))
  for (const [first, last] of changed) {
    // A millisecond more at both ends: times are floored.
    const oldest = Math.max(0, Math.ceil((Number(first / NS_PER_MS) - 1 - start) / interval))
    if (oldest < held && start + oldest * interval <= Number(last / NS_PER_MS) + reach + 1) held = oldest
  }
  return held
}

/** `held` kept steps, from step `from` on, and behind them those of `rest`. */
async function joined({ value: kept }: KeptSteps, from: number, held: number, rest: VectorValue, count: number, pacer: Pacer): Promise<VectorValue> {
  const { labels, keptAt, restAt } = (await sameSeries(kept, from, held, rest, pacer)) ?? (await allSeries(kept, from, held, rest, pacer))
  const values = new Float64Array(labels.length * count)
  const kinds = new Uint8Array(labels.length * count)
  for (let series = 0; series < labels.length; series++) {
    if (pacer.due(count)) await pacer.pause()
    const at = series * count
    copy(kept, keptAt[series], held, values, kinds, at)
    copy(rest, restAt[series], rest.steps, values, kinds, at + held)
  }
  return { type: 'vector', labels, steps: count, values, kinds }
}

/** Series of a join, and where their cells begin in what is kept and in the rest; -1 = they have none there. */
interface Places {
  labels: LabelSets
  keptAt: ArrayLike<number>
  restAt: ArrayLike<number>
}

/** Of a rest that has series which are kept, in their order, and no others: the labels are those that are kept. @returns undefined where it is not so. */
async function sameSeries(kept: VectorValue, from: number, held: number, rest: VectorValue, pacer: Pacer): Promise<Places | undefined> {
  const { labels } = kept
  const keptAt = new Int32Array(labels.length)
  const restAt = new Int32Array(labels.length).fill(-1)
  let next = filledFrom(rest, 0)
  for (let series = 0; series < labels.length; series++) {
    if (pacer.due(held + rest.steps)) await pacer.pause()
    const first = series * kept.steps + from
    if (isEmpty(kept.kinds, first, first + held)) return undefined
    keptAt[series] = first
    if (next === rest.labels.length || !labels.at(series).equals(rest.labels.at(next))) continue
    restAt[series] = next * rest.steps
    next = filledFrom(rest, next + 1)
  }
  return next === rest.labels.length ? { labels, keptAt, restAt } : undefined
}

/** The first series from that one on that has a value. */
function filledFrom({ labels, kinds, steps }: VectorValue, series: number): number {
  let next = series
  while (next < labels.length && isEmpty(kinds, next * steps, (next + 1) * steps)) next++
  return next
}

async function allSeries(kept: VectorValue, from: number, held: number, rest: VectorValue, pacer: Pacer): Promise<Places> {
  const labels: Labels[] = []
  const keptAt: number[] = []
  const restAt: number[] = []
  const places = new Map<string, number>()
  for (let series = 0; series < kept.labels.length; series++) {
    if (pacer.due(held)) await pacer.pause()
    const first = series * kept.steps + from
    if (isEmpty(kept.kinds, first, first + held)) continue
    places.set(kept.labels.at(series).key, labels.length)
    labels.push(kept.labels.at(series))
    keptAt.push(first)
    restAt.push(-1)
  }
  for (let series = 0; series < rest.labels.length; series++) {
    if (pacer.due(rest.steps)) await pacer.pause()
    const first = series * rest.steps
    if (isEmpty(rest.kinds, first, first + rest.steps)) continue
    const own = rest.labels.at(series)
    const place = places.get(own.key)
    if (place !== undefined) restAt[place] = first
    else {
      labels.push(own)
      keptAt.push(-1)
      restAt.push(first)
    }
  }
  return { labels: new LabelList(labels), keptAt, restAt }
}

/** Up to so many cells a loop copies sooner than a call, which needs a view of them. */
const SHORT_CELLS = 64

/** @param first -1 = the series has none of these steps. */
function copy({ values, kinds }: VectorValue, first: number, steps: number, intoValues: Float64Array, intoKinds: Uint8Array, at: number): void {
  if (first === -1) return
  if (steps > SHORT_CELLS) {
    intoValues.set(values.subarray(first, first + steps), at)
    intoKinds.set(kinds.subarray(first, first + steps), at)
    return
  }
  for (let i = 0; i < steps; i++) {
    intoValues[at + i] = values[first + i]
    intoKinds[at + i] = kinds[first + i]
  }
}

/** @returns undefined where that would be more than `maxBytes`. */
export function encodeSteps({ start, value, annotations, texts: written }: KeptSteps, maxBytes: number): Uint8Array | undefined {
  const { labels, steps, kinds } = value
  // Most cells would have to be empty; looking for them takes its time.
  if (kinds.length > maxBytes) return undefined
  const filled: number[] = []
  for (let series = filledFrom(value, 0); series < labels.length; series = filledFrom(value, series + 1)) filled.push(series)
  const cells = filled.length * steps
  const room = Math.min(MOST_TEXT_BYTES, maxBytes - HEAD_BYTES - cells * CELL_BYTES)
  if (room < 0) return undefined
  const texts = written !== undefined && filled.length === labels.length ? written : textsOf(labels, filled, annotations, room)
  if (texts === undefined || texts.length > room) return undefined
  const bytes = new Uint8Array(HEAD_BYTES + cells * CELL_BYTES + texts.length)
  new Float64Array(bytes.buffer, 0, 3).set([start, steps, filled.length])
  const keptValues = new Float64Array(bytes.buffer, HEAD_BYTES, cells)
  const keptKinds = new Uint8Array(bytes.buffer, HEAD_BYTES + cells * 8, cells)
  for (let place = 0; place < filled.length; place++) copy(value, filled[place] * steps, steps, keptValues, keptKinds, place * steps)
  bytes.set(texts, HEAD_BYTES + cells * CELL_BYTES)
  return bytes
}

/** @returns undefined where they are known to take more than there is room for. */
function textsOf(labels: LabelSets, series: readonly number[], annotations: readonly string[], room: number): Uint8Array | undefined {
  if (takeMore(labels, series, room)) return undefined
  return Buffer.from(JSON.stringify({ labels: series.map((one) => labels.at(one).pairs), annotations }))
}

/** Whether the labels of these series take more than so many bytes at the least: looked at before all of them are written for nothing. */
function takeMore(labels: LabelSets, series: readonly number[], room: number): boolean {
  let bytes = 0
  for (const one of series) {
    for (const text of labels.at(one).pairs) bytes += text.length + QUOTES
    if (bytes > room) return true
  }
  return false
}

export function decodeSteps({ buffer, byteOffset, byteLength }: Uint8Array): KeptSteps {
  const [start, steps, series] = new Float64Array(buffer, byteOffset, 3)
  const cells = series * steps
  const values = new Float64Array(buffer, byteOffset + HEAD_BYTES, cells)
  const kinds = new Uint8Array(buffer, byteOffset + HEAD_BYTES + cells * 8, cells)
  const head = HEAD_BYTES + cells * CELL_BYTES
  const { bytes: texts, labels, annotations } = textsIn(new Uint8Array(buffer, byteOffset + head, byteLength - head))
  return { start, value: { type: 'vector', labels, steps, values, kinds }, annotations, texts }
}

interface Texts {
  bytes: Uint8Array
  labels: LabelSets
  annotations: string[]
}

/** What was read lately: a panel has the same labels each time it is asked. It goes with a collection of the heap. */
const lately: WeakRef<Texts>[] = []
const MOST_LATELY = 8
let nextLately = 0

function textsIn(bytes: Uint8Array): Texts {
  for (const one of lately) {
    const known = one.deref()
    if (known !== undefined && known.bytes.length === bytes.length && Buffer.compare(known.bytes, bytes) === 0) return known
  }
  // What is known lately must not hold on to the shared memory of all the values.
  const own = Buffer.from(bytes)
  const { labels, annotations } = JSON.parse(own.toString()) as { labels: string[][]; annotations: string[] }
  const texts = { bytes: own, labels: new LabelList(labels.map((pairs) => new Labels(pairs))), annotations }
  lately[nextLately] = new WeakRef(texts)
  nextLately = (nextLately + 1) % MOST_LATELY
  return texts
}

function isEmpty(kinds: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (kinds[at] !== ABSENT) return false
  return true
}
