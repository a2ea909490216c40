/**
 * How far a group is: what may be committed, and what is left behind.
 *
 * Invariants
 * - An offset is due only when all records before it, since the partition became this member's, are settled: durable, or with the dead letters.
 * - Nothing is due of a generation that is over, nor of a partition that is another's.
 */
import type { PartitionOffset } from './client.ts'

/** Which of the records of one fetch are settled, and from which offset on some are not. */
export class Settled {
  private readonly offsets: readonly number[]
  private readonly behind: number
  private readonly states: Uint8Array
  private open: number
  private low = 0
  private finish: () => void = () => {}
  /** Resolves when each is settled or given back. */
  readonly finished: Promise<void>

  /** @param offsets of the records, ascending. @param behind the offset behind all that was fetched. */
  constructor(offsets: readonly number[], behind: number) {
    this.offsets = offsets
    this.behind = behind
    this.states = new Uint8Array(offsets.length)
    this.open = offsets.length
    this.finished = new Promise((resolve) => {
      this.finish = resolve
    })
    if (this.open === 0) this.finish()
  }

  /** It is durable, or there is nothing of it to be. */
  settle(index: number): void {
    this.end(index, SETTLED)
  }

  /** It has to be fetched again. */
  giveBack(index: number): void {
    this.end(index, GIVEN_BACK)
  }

  /** The first offset that is not settled, or the one behind all. */
  get next(): number {
    while (this.low < this.states.length && this.states[this.low] === SETTLED) this.low++
    return this.low < this.states.length ? this.offsets[this.low] : this.behind
  }

  private end(index: number, state: number): void {
    if (this.states[index] !== OPEN) return
    this.states[index] = state
    if (--this.open === 0) this.finish()
  }
}

const OPEN = 0
const SETTLED = 1
const GIVEN_BACK = 2

/** As a group that has committed nothing. */
const NOWHERE = -1

interface Place extends PartitionOffset {
  committed: number
  /** The newest end of the partition that is known, once one is. */
  end: number | undefined
}

/** Of the partitions of one member. */
export class GroupOffsets {
  private current = Number.NEGATIVE_INFINITY
  private places = new Map<string, Place>()

  get generation(): number {
    return this.current
  }

  get partitions(): number {
    return this.places.size
  }

  /** @param owned with the offsets that the group has committed. */
  join(generation: number, owned: readonly PartitionOffset[]): void {
    this.current = generation
    this.places = new Map(owned.map((place) => [keyOf(place), { ...place, committed: place.offset, end: undefined }]))
  }

  /** The membership is over. */
  leave(): void {
    this.current = Number.NEGATIVE_INFINITY
    this.places.clear()
  }

  /** Records from `offset` on are fetched. Before what is settled they are of a partition that was made anew, or has lost its end: it is gone on from there. */
  begins(generation: number, place: PartitionOffset): void {
    const known = generation === this.current ? this.places.get(keyOf(place)) : undefined
    if (known === undefined || place.offset >= known.offset) return
    known.offset = place.offset
    known.committed = NOWHERE
    known.end = undefined
  }

  /** All before `offset` are settled. @returns false when that is no longer this member's to say. */
  settled(generation: number, place: PartitionOffset): boolean {
    const known = generation === this.current ? this.places.get(keyOf(place)) : undefined
    if (known === undefined) return false
    if (place.offset > known.offset) known.offset = place.offset
    if (known.end !== undefined && place.offset > known.end) known.end = place.offset
    return true
  }

  due(): PartitionOffset[] {
    const due: PartitionOffset[] = []
    for (const { topic, partition, offset, committed } of this.places.values()) if (offset > committed) due.push({ topic, partition, offset })
    return due
  }

  committed(generation: number, offsets: readonly PartitionOffset[]): void {
    if (generation !== this.current) return
    for (const place of offsets) {
      const known = this.places.get(keyOf(place))
      // Above what is settled it is of a partition that was made anew since it was sent.
      if (known !== undefined && place.offset > known.committed && place.offset <= known.offset) known.committed = place.offset
    }
  }

  /** The partition ends there. */
  reaches(place: { topic: string; partition: number; end: number }): void {
    const known = this.places.get(keyOf(place))
    if (known !== undefined && place.end > (known.end ?? -1)) known.end = Math.max(place.end, known.offset)
  }

  /** Records that are not settled and committed, of all partitions; null while that is not known: of who is no member, or has not heard of all ends yet. */
  get lag(): number | null {
    const lags = this.lags()
    if (this.current === Number.NEGATIVE_INFINITY || lags.length < this.places.size) return null
    return lags.reduce((sum, { lag }) => sum + lag, 0)
  }

  /** Of each partition whose end is known. */
  lags(): { topic: string; partition: number; lag: number }[] {
    return [...this.places.values()].flatMap(({ topic, partition, offset, committed, end }) =>
      end === undefined ? [] : [{ topic, partition, lag: Math.max(0, end - (committed === NOWHERE ? offset : committed)) }],
    )
  }
}

const keyOf = ({ topic, partition }: { topic: string; partition: number }): string => `${partition}:${topic}`
