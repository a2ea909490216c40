/**
 * The simulated event loop: every completion of I/O, timer and immediate is an event with a time, the earliest runs next, and all promises that it
 * settles run to their end before the one after it. Delays are random, so that completions overtake each other; the clock moves only here.
 */
import type { Timer, Timers } from '../../common/timers.ts'
import type { Random } from './random.ts'

interface Event extends Timer {
  at: number
  order: number
  name: string
  run: (() => void) | undefined
}

/** Thrown out of a synchronous call at the moment of a crash. */
export class Crash extends Error {}

export class Scheduler implements Timers {
  /** Milliseconds. */
  now = 0
  /** Events and synchronous calls so far. */
  steps = 0
  /** Of all that has happened: two runs of a seed have the same. */
  hash = 0x811c9dc5
  /** Step at which the machine or the process stops. */
  crashAt = Number.POSITIVE_INFINITY
  /** Step after which the whole run stops, to find a cause. */
  until = Number.POSITIVE_INFINITY
  /** Called once when it does. */
  onCrash: () => void = () => {}
  trace: ((line: string) => void) | undefined
  private readonly random: Random
  private heap: Event[] = []
  private order = 0

  constructor(random: Random) {
    this.random = random
  }

  at(delay: number, name: string, run: () => void): Event {
    const event: Event = { at: this.now + delay, order: this.order++, name, run, unref: () => event }
    this.heap.push(event)
    this.up(this.heap.length - 1)
    return event
  }

  /** After what an operation of the machine takes, and `extra` milliseconds. */
  soon(name: string, run: () => void, extra = 0): Event {
    const { random } = this
    const kind = random.next()
    const delay = kind < 0.8 ? random.next() * 0.5 : kind < 0.98 ? random.next() * 10 : random.next() * 2000
    return this.at(delay + extra, name, run)
  }

  /** Counts a step, and is where a crash happens. */
  step(name: string): void {
    this.steps++
    let { hash } = this
    for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193)
    this.hash = Math.imul(hash ^ Math.floor(this.now * 1000), 0x01000193)
    this.trace?.(`${this.steps} ${this.now.toFixed(3)} ${name}`)
    if (this.steps < this.crashAt) return
    this.crashAt = Number.POSITIVE_INFINITY
    this.onCrash()
    throw new Crash('the machine has stopped')
  }

  /** Runs events until `done`, or until there are none. */
  drive(done: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const turn = (): void => {
        if (done() || this.steps >= this.until) return resolve()
        const event = this.pop()
        if (event === undefined) return resolve()
        this.now = event.at
        try {
          this.step(event.name)
          event.run?.()
        } catch (error) {
          if (!(error instanceof Crash)) return reject(error as Error)
        }
        setImmediate(turn)
      }
      setImmediate(turn)
    })
  }

  /** What is under way will never happen. */
  clear(): void {
    this.heap = []
  }

  setTimeout(callback: () => void, ms: number): Timer {
    return this.at(ms, 'timeout', callback)
  }

  clearTimeout(timer: Timer | undefined): void {
    if (timer !== undefined) (timer as Event).run = undefined
  }

  setInterval(callback: () => void, ms: number): Timer {
    const again = (): void => {
      callback()
      if (event.run === undefined) return
      event.at = this.now + ms
      event.order = this.order++
      this.heap.push(event)
      this.up(this.heap.length - 1)
    }
    const event = this.at(ms, 'interval', again)
    return event
  }

  clearInterval(timer: Timer | undefined): void {
    this.clearTimeout(timer)
  }

  setImmediate(callback: () => void): unknown {
    return this.at(0.001, 'immediate', callback)
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const timer = this.setTimeout(resolve, ms)
      signal.addEventListener('abort', () => {
        this.clearTimeout(timer)
        reject(signal.reason)
      })
    })
  }

  monotonic(): number {
    return this.now
  }

  private pop(): Event | undefined {
    const { heap } = this
    for (;;) {
      const first = heap[0]
      const last = heap.pop()
      if (first === undefined || last === undefined) return undefined
      if (heap.length > 0) {
        heap[0] = last
        this.down()
      }
      if (first.run !== undefined) return first
    }
  }

  private up(at: number): void {
    const { heap } = this
    const event = heap[at]
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!before(event, heap[parent])) break
      heap[at] = heap[parent]
      at = parent
    }
    heap[at] = event
  }

  private down(): void {
    const { heap } = this
    const event = heap[0]
    let at = 0
    for (;;) {
      let child = at * 2 + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && before(heap[child + 1], heap[child])) child++
      if (!before(heap[child], event)) break
      heap[at] = heap[child]
      at = child
    }
    heap[at] = event
  }
}

function before(a: Event, b: Event): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}
