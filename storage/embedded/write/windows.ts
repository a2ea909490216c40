/**
 * The out-of-order windows of all namespaces: each is there once a write has named the namespace, and stays when it holds a time, until the last
 * measurement of the namespace is gone for good.
 */
import type { Limits } from '../../common/limits.ts'
import { INT64_MIN, later } from '../../common/time.ts'
import { Window } from '../../common/window.ts'
import type { TableRows } from '../wal/record.ts'

/** A write on its way, as far as it has moved its window. */
interface InFlight {
  rows: number
  /** Newest time of the window before it. */
  newestBefore: bigint | undefined
}

export class Windows {
  private readonly byNamespace = new Map<string, Window>()
  private readonly limits: Limits
  /** See `newest`; undefined = to be found out. Each write asks for it, so nothing may go through all namespaces for it. */
  private held: bigint | undefined = INT64_MIN

  constructor(limits: Limits) {
    this.limits = limits
  }

  of(namespace: string): Window {
    let window = this.byNamespace.get(namespace)
    if (window === undefined) {
      window = new Window(this.limits, undefined, (before, after) => this.moved(before, after))
      this.byNamespace.set(namespace, window)
    }
    return window
  }

  /** As it is, to look at: the namespace's name does not stay. */
  peek(namespace: string): Window {
    return this.byNamespace.get(namespace) ?? new Window(this.limits)
  }

  get size(): number {
    return this.byNamespace.size
  }

  /** Newest time of all namespaces, nanoseconds, writes on their way included; INT64_MIN = none holds one. */
  get newest(): bigint {
    if (this.held !== undefined) return this.held
    let held = INT64_MIN
    for (const { newest } of this.byNamespace.values()) if (newest !== undefined) held = later(held, newest)
    this.held = held
    return held
  }

  /**
   * Time of the newest row of each namespace that has taken effect.
   * @param inFlight writes on their way, in the order of the log, and their namespaces: they have moved the windows already and may yet fail.
   */
  applied(inFlight: Iterable<readonly [InFlight, string]>): Map<string, bigint> {
    const before = new Map<string, bigint | undefined>()
    for (const [{ rows, newestBefore }, namespace] of inFlight) if (rows > 0 && !before.has(namespace)) before.set(namespace, newestBefore)
    const times = new Map<string, bigint>()
    for (const [namespace, window] of this.byNamespace) {
      const newest = before.has(namespace) ? before.get(namespace) : window.newest
      if (newest !== undefined) times.set(namespace, newest)
    }
    return times
  }

  /** Whoever names a namespace may be refused: nothing of the name stays. */
  forgetEmpty(namespace: string): void {
    if (this.byNamespace.get(namespace)?.newest === undefined) this.forget(namespace)
  }

  /** Nothing of the namespace is left, and nothing on its way: whoever has the name next may write any history. */
  forget(namespace: string): void {
    this.moved(this.byNamespace.get(namespace)?.newest, undefined)
    this.byNamespace.delete(namespace)
  }

  /** @param owned whether a namespace has measurements. */
  forgetAllBut(owned: (namespace: string) => boolean): void {
    for (const namespace of this.byNamespace.keys()) if (!owned(namespace)) this.forget(namespace)
  }

  private moved(before: bigint | undefined, after: bigint | undefined): void {
    if (this.held === undefined) return
    if (after !== undefined && after >= this.held) this.held = after
    // Others may hold the same time.
    else if (before === this.held) this.held = undefined
  }

  /**
   * Moves the windows to the newest rows of a replayed table.
   * @param measurementOf id of a series' measurement. @param namespaceOf that of a measurement; undefined when it is gone.
   * @returns whether all rows have a measurement.
   */
  see(rows: TableRows, measurementOf: (series: number) => number, namespaceOf: (measurement: number) => string | undefined): boolean {
    let owned = true
    let lastId = -1
    let window: Window | undefined
    let low = 0
    let high = -0x80000000
    for (let row = 0; row < rows.rows; row++) {
      const id = measurementOf(rows.series[row])
      if (id !== lastId) {
        const namespace = namespaceOf(id)
        if (namespace === undefined) {
          owned = false
          continue
        }
        const next = this.of(namespace)
        if (window !== undefined && next !== window) {
          window.advance(low, high)
          high = -0x80000000
        }
        window = next
        lastId = id
      }
      if (rows.time[row * 2 + 1] > high || (rows.time[row * 2 + 1] === high && rows.time[row * 2] >>> 0 > low >>> 0)) {
        low = rows.time[row * 2]
        high = rows.time[row * 2 + 1]
      }
    }
    window?.advance(low, high)
    return owned
  }
}
