/**
 * V8 keeps what a heap once took, and a thread that rests has no reason to collect: what a start or a burst of queries left stays resident. This thread's heap is
 * collected as far as it goes once it rests and has grown, and ever less often.
 */
import { getHeapStatistics } from 'node:v8'
import { loopUtilization } from '../event-loop/index.ts'
import { collectAtRest } from './collect.ts'

/** What is looked at and done. */
export interface HeapMeter {
  /** Bytes that the heap has taken. */
  committed(): number
  /** Part of the time since the last call in which the thread was at work. */
  utilization(): number
  /** Collects all; some tens of milliseconds. */
  trim(): void
}

const FIRST_LOOK_MS = 5000
const LONGEST_WAIT_MS = 600_000
/** Above it the thread does not rest. */
const RESTING = 0.05
/** Less is not worth a collection. */
const GROWN_BYTES = 8 << 20

/** Collects the heap of its thread when the thread rests, until it is stopped. */
export class HeapTrimmer {
  private readonly meter: HeapMeter
  private readonly timer: NodeJS.Timeout
  private trimmedTo = 0
  private waitMs = FIRST_LOOK_MS
  private leftMs = FIRST_LOOK_MS

  /** Looks every few seconds, as long as something else keeps the thread alive. */
  constructor(meter: HeapMeter = threadMeter()) {
    this.meter = meter
    this.timer = setInterval(() => this.look(), FIRST_LOOK_MS).unref()
  }

  /** @returns whether the heap was trimmed. */
  look(): boolean {
    const utilization = this.meter.utilization()
    this.leftMs -= FIRST_LOOK_MS
    if (this.leftMs > 0 || utilization > RESTING || this.meter.committed() - this.trimmedTo < GROWN_BYTES) return false
    this.trim()
    this.waitMs = Math.min(this.waitMs * 2, LONGEST_WAIT_MS)
    this.leftMs = this.waitMs
    return true
  }

  /** At once. */
  trim(): void {
    this.meter.trim()
    this.trimmedTo = this.meter.committed()
  }

  stop(): void {
    clearInterval(this.timer)
  }
}

/** Of the thread that calls it. */
function threadMeter(): HeapMeter {
  return {
    committed: () => getHeapStatistics().total_heap_size,
    utilization: loopUtilization(),
    trim: collectAtRest,
  }
}
