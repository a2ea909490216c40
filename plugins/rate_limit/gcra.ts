/**
 * The generic cell rate algorithm: a bucket of `burst` requests that fills at `rps`, kept as the time it takes to be full. All times are
 * milliseconds of a clock that never goes back. The rate comes with every call, so that it may change while the bucket is in use.
 */
export interface Rate {
  rps: number
  /** At least 1. */
  burst: number
}

/** What fractions of a millisecond add up to by rounding. */
const ROUNDING_MS = 0.001

/** Two numbers, since the sum of a small one and a clock that has run for years would lose its fractions. */
export interface Bucket {
  /** When it was changed last. */
  at: number
  /** From then on, until it is full. */
  owed: number
}

export function fullBucket(): Bucket {
  return { at: 0, owed: 0 }
}

/** @returns undefined for 0 a second, which is no limit. @param burst less than `rps` counts as `rps`. */
export function rateOf(rps: number, burst: number): Rate | undefined {
  return rps > 0 ? { rps, burst: Math.max(1, rps, burst) } : undefined
}

/** Milliseconds until one more request is allowed; 0 = now. Takes nothing. */
export function waitOf(bucket: Bucket, rate: Rate, now: number): number {
  const interval = 1000 / rate.rps
  // A rate that was raised is not held to what was owed at the slower one.
  if (owed(bucket, now) > interval * rate.burst) {
    bucket.owed = interval * rate.burst
    bucket.at = now
  }
  const wait = owed(bucket, now) - interval * (rate.burst - 1)
  return wait > ROUNDING_MS ? wait : 0
}

/** Takes one request out of a bucket that has it. */
export function take(bucket: Bucket, rate: Rate, now: number): void {
  bucket.owed = owed(bucket, now) + 1000 / rate.rps
  bucket.at = now
}

/** Whole requests left. */
export function remaining(bucket: Bucket, rate: Rate, now: number): number {
  return Math.min(rate.burst, Math.floor(rate.burst - (owed(bucket, now) - ROUNDING_MS) / (1000 / rate.rps)))
}

/** Milliseconds until the bucket is full. */
export function owed(bucket: Bucket, now: number): number {
  return Math.max(0, bucket.owed - (now - bucket.at))
}
