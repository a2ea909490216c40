/** Arithmetic on the buckets of one sign. Bucket numbers are shared between histograms and never changed; counts belong to one. */
import { coarserIndex, exponentialBound } from './bounds.ts'
import { NO_COUNTS, NO_INDEX, type Side } from './buckets.ts'
import { kahanAt } from './kahan.ts'

/** No buckets. Its arrays are to be replaced, not written to. */
export function emptySide(): Side {
  return { index: NO_INDEX, counts: NO_COUNTS }
}

/** A copy with counts of its own; bucket numbers are shared. */
export function copySide({ index, counts }: Side): Side {
  return { index, counts: counts.length === 0 ? counts : counts.slice() }
}

/** Whether the bucket numbers are equal. */
export function sameIndex(a: Int32Array, b: Int32Array): boolean {
  if (a === b) return true
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}

/** Whether the counts are equal, bit by bit but for payloads of NaN. */
export function sameCounts(a: Float64Array, b: Float64Array): boolean {
  for (let i = 0; i < a.length; i++) if (!Object.is(a[i], b[i])) return false
  return a.length === b.length
}

/** First bucket that ends above a zero threshold. */
export function firstAbove(index: Int32Array, schema: number, threshold: number): number {
  let from = 0
  if (threshold > 0) while (from < index.length && exponentialBound(schema, index[from]) <= threshold) from++
  return from
}

/** a + sign * b, in place. @param from b's buckets before this one are left out. */
export function addSide(a: Side, b: Side, from: number, sign: 1 | -1): void {
  const { index, counts } = b
  if (from === 0 && sameIndex(a.index, index)) {
    for (let i = 0; i < counts.length; i++) a.counts[i] += sign * counts[i]
    return
  }
  makeRoom(a, undefined, index, from)
  let at = 0
  for (let i = from; i < index.length; i++) {
    while (a.index[at] < index[i]) at++
    a.counts[at] += sign * counts[i]
  }
}

/**
 * a + b with what rounding loses kept in `lost`, in place (Neumaier's variant of Kahan's summation).
 * @param lost of the same buckets as a, which it keeps. @param bLost what was lost of b before; may be undefined.
 */
export function kahanAddSide(a: Side, lost: Side, b: Side, bLost: Float64Array | undefined, from: number): void {
  const { index, counts } = b
  if (from > 0 || !sameIndex(a.index, index)) makeRoom(a, lost, index, from)
  let at = 0
  for (let i = from; i < index.length; i++) {
    while (a.index[at] < index[i]) at++
    kahanAt(a.counts, lost.counts, at, counts[i])
    if (bLost !== undefined && bLost[i] !== 0) kahanAt(a.counts, lost.counts, at, bLost[i])
  }
}

/** Gives a (and `lost`) empty buckets where only the other has some. */
function makeRoom(a: Side, lost: Side | undefined, other: Int32Array, from: number): void {
  const own = a.index
  let size = own.length
  let at = 0
  for (let i = from; i < other.length; i++) {
    while (at < own.length && own[at] < other[i]) at++
    if (at === own.length || own[at] !== other[i]) size++
  }
  if (size === own.length) return
  const index = new Int32Array(size)
  const counts = new Float64Array(size)
  const lostCounts = lost === undefined ? undefined : new Float64Array(size)
  at = 0
  let next = from
  for (let n = 0; n < size; n++) {
    if (at < own.length && (next >= other.length || own[at] <= other[next])) {
      if (next < other.length && own[at] === other[next]) next++
      index[n] = own[at]
      counts[n] = a.counts[at]
      if (lostCounts !== undefined) lostCounts[n] = (lost as Side).counts[at]
      at++
    } else index[n] = other[next++]
  }
  a.index = index
  a.counts = counts
  if (lost !== undefined) {
    lost.index = index
    lost.counts = lostCounts as Float64Array
  }
}

/** At a resolution 2^shift times coarser; a new side. */
export function reduceSide({ index, counts }: Side, shift: number): Side {
  const reduced = new Int32Array(index.length)
  const sums = new Float64Array(index.length)
  let n = -1
  for (let i = 0; i < index.length; i++) {
    const target = coarserIndex(index[i], shift)
    if (n < 0 || reduced[n] !== target) {
      reduced[++n] = target
      sums[n] = counts[i]
    } else sums[n] += counts[i]
  }
  return { index: reduced.slice(0, n + 1), counts: sums.slice(0, n + 1) }
}

/** As `reduceSide`, of a side and what its counts have lost. */
export function kahanReduceSide({ index, counts }: Side, lost: Float64Array, shift: number): { side: Side; lost: Float64Array } {
  const reduced = new Int32Array(index.length)
  const sums = new Float64Array(index.length)
  const left = new Float64Array(index.length)
  let n = -1
  for (let i = 0; i < index.length; i++) {
    const target = coarserIndex(index[i], shift)
    if (n < 0 || reduced[n] !== target) {
      reduced[++n] = target
      sums[n] = counts[i]
      left[n] = lost[i]
    } else {
      kahanAt(sums, left, n, counts[i])
      kahanAt(sums, left, n, lost[i])
    }
  }
  return { side: { index: reduced.slice(0, n + 1), counts: sums.slice(0, n + 1) }, lost: left.slice(0, n + 1) }
}

/** Leaves out empty buckets (those of which nothing is in `lost` either), in place. */
export function compactSide(a: Side, lost?: Side): void {
  const { index, counts } = a
  let kept = 0
  for (let i = 0; i < counts.length; i++) if (counts[i] !== 0 || (lost !== undefined && lost.counts[i] !== 0)) kept++
  if (kept === counts.length) return
  const [newIndex, newCounts, newLost] = [new Int32Array(kept), new Float64Array(kept), new Float64Array(lost === undefined ? 0 : kept)]
  let n = 0
  for (let i = 0; i < counts.length; i++) {
    if (counts[i] === 0 && (lost === undefined || lost.counts[i] === 0)) continue
    newIndex[n] = index[i]
    if (lost !== undefined) newLost[n] = lost.counts[i]
    newCounts[n++] = counts[i]
  }
  a.index = newIndex
  a.counts = newCounts
  if (lost !== undefined) {
    lost.index = newIndex
    lost.counts = newLost
  }
}
