/**
 * Work that may be long, done in turns of the event loop. It is a generator that yields wherever it may be interrupted, at least once for each few
 * hundred microseconds of work; when it has held the loop for TURN_MS, the others get their turn.
 *
 * Of all that wait for their next turn, one goes on in each: however many requests are being read, the loop is held by one of them at a time. Those whose work it is
 * take turns, so that whoever has much waits for itself. The bound is a time and not a count, since what a row costs lies a hundred times apart (a known series, a new
 * measurement).
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { OwnerQueue } from './owner-queue.ts'

/** Half of what is left of 50 ms once a slow yield, the admission of the batch or a collection of garbage comes on top. */
const TURN_MS = 10

export type Work<T> = Generator<void, T, void>

const waiting = new OwnerQueue<() => void, string | undefined>()
let waitingCount = 0

const currentOwner = new AsyncLocalStorage<string>()

/** Runs work whose turns, through whatever it waits for, are one owner's. */
export function ownedBy<T>(owner: string, work: () => T): T {
  return currentOwner.run(owner, work)
}

/** Resolves in a turn of its own: owners take turns, and of one owner the work that has waited longest goes on. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(currentOwner.getStore(), resolve)
    if (++waitingCount === 1) setImmediate(advance)
  })
}

function advance(): void {
  const resolve = waiting.shift()
  if (--waitingCount > 0) setImmediate(advance)
  resolve?.()
}

/** How long work that is no generator has held the loop. */
export class Turn {
  private readonly signal: AbortSignal | undefined
  private since = performance.now()

  /** @param signal ends the work at its next turn. */
  constructor(signal?: AbortSignal) {
    this.signal = signal
  }

  /** Whether the work is to wait for its next turn. To be asked every few hundred microseconds. */
  get isOver(): boolean {
    return performance.now() - this.since >= TURN_MS
  }

  /** @throws the signal's reason. */
  async next(): Promise<void> {
    await nextTurn()
    this.signal?.throwIfAborted()
    this.since = performance.now()
  }
}

/**
 * Does work, at once as far as it comes in one turn. @param ended asked before each further turn: why nobody wants the result any more. The work is then
 * given up; its `finally` blocks run.
 */
export function inTurns<T>(work: Work<T>, ended?: () => Error | undefined): T | Promise<T> {
  const step = oneTurn(work)
  return step.done === true ? step.value : further(work, ended)
}

async function further<T>(work: Work<T>, ended: (() => Error | undefined) | undefined): Promise<T> {
  for (;;) {
    await nextTurn()
    const reason = ended?.()
    if (reason !== undefined) {
      work.return(undefined as T)
      throw reason
    }
    const step = oneTurn(work)
    if (step.done === true) return step.value
  }
}

function oneTurn<T>(work: Work<T>): IteratorResult<void, T> {
  const until = performance.now() + TURN_MS
  for (;;) {
    const step = work.next()
    if (step.done === true || performance.now() >= until) return step
  }
}

/** Does work without interruption: for tests, benches and what is known to be small. */
export function atOnce<T>(work: Work<T>): T {
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
  }
}

/** A decoder keeps what it is at in its members: it reads one request after the other, in order of arrival, each in turns. */
export class OneByOne {
  /** Resolves when all that was begun or waits is done; undefined = nothing is. */
  private last: Promise<void> | undefined

  /** @param begin called when all before it are done. @param ended as of `inTurns`. */
  run<T>(begin: () => Work<T>, ended?: () => Error | undefined): T | Promise<T> {
    const { last } = this
    const result = last === undefined ? inTurns(begin(), ended) : last.then(() => this.begun(begin, ended))
    if (!(result instanceof Promise)) return result
    const done: Promise<void> = result.then(nothing, nothing).then(() => {
      if (this.last === done) this.last = undefined
    })
    this.last = done
    return result
  }

  private begun<T>(begin: () => Work<T>, ended: (() => Error | undefined) | undefined): T | Promise<T> {
    const reason = ended?.()
    if (reason !== undefined) throw reason
    return inTurns(begin(), ended)
  }
}

const nothing = (): void => {}
