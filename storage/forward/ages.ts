/**
 * How old the records of the queue are. Those of this start by the clock that nobody sets: a device without a battery begins in 1970, and all that waits would be too
 * old as soon as its wall clock is put right. Of what was taken before, the age at the start is by the wall clock, which may be wrong, and nobody may have tried
 * meanwhile: it leaves time.
 */
import type { RecordHead } from './record.ts'

/** What is left at least of the bound when a process begins; of a shorter one half. */
const LEFT_MS = 3_600_000
/** By how much the two clocks drift apart before that is a jump. */
const JUMP_MS = 1000

type Taken = Pick<RecordHead, 'sequence' | 'takenMs'>

interface Clocks {
  /** Wall clock, milliseconds. */
  now(): number
  /** Milliseconds of a clock that never goes back. */
  monotonic(): number
}

export class Ages {
  private readonly maxAgeMs: number
  private readonly clocks: Clocks
  private readonly began: { wall: number; monotonic: number }
  /** Of the first record of this start. */
  private first = 0
  /** The wall clock less the other one, from a record on; a jump adds one. */
  private readonly offsets: { from: number; ms: number }[] = []

  /** @param maxAgeMs 0 = none. */
  constructor(maxAgeMs: number, clocks: Clocks) {
    this.maxAgeMs = maxAgeMs
    this.clocks = clocks
    this.began = { wall: clocks.now(), monotonic: clocks.monotonic() }
  }

  /** @param sequence of the first record of this start. */
  begin(sequence: number): void {
    this.first = sequence
  }

  /** A record is taken now. Those of this number and higher ones that were noted before were taken back. */
  taken({ sequence, takenMs }: Taken): void {
    if (this.maxAgeMs <= 0) return
    while ((this.offsets.at(-1)?.from ?? -1) >= sequence) this.offsets.pop()
    const ms = takenMs - this.clocks.monotonic()
    const last = this.offsets.at(-1)
    if (last === undefined || Math.abs(ms - last.ms) > JUMP_MS) this.offsets.push({ from: sequence, ms })
  }

  /** Records before this number are gone. */
  forget(before: number): void {
    while (this.offsets.length > 1 && this.offsets[1].from <= before) this.offsets.shift()
  }

  isTooOld(record: Taken): boolean {
    return this.maxAgeMs > 0 && this.ageOf(record) > this.maxAgeMs
  }

  private ageOf({ sequence, takenMs }: Taken): number {
    const now = this.clocks.monotonic()
    if (sequence >= this.first) return now - (takenMs - (this.offsets.findLast(({ from }) => from <= sequence)?.ms ?? takenMs - now))
    const atStart = Math.min(this.began.wall - takenMs, this.maxAgeMs - Math.min(LEFT_MS, this.maxAgeMs / 2))
    return Math.max(0, atStart) + now - this.began.monotonic
  }
}
