/**
 * Work that may be long, done in turns of the event loop. It is a generator that yields wherever it may be interrupted, at least once for each few
 * hundred microseconds of work; when it has held the loop for TURN_MS, the others get their turn.
 *
 * What waits for its next turn goes on in each until TURN_MS are over, long work alone: however many requests are being read, the loop is held by as much as one of them
 * holds it. Those whose work it is take turns, so that whoever has much waits for itself, and rest after what has held the loop for much longer (`Rests`). The bound is a time and not a count, since what a row costs lies a hundred times
 * apart (a known series, a new measurement).
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { OwnerQueue } from './owner-queue.ts'
import { Rests } from './rests.ts'

/** Half of what is left of 50 ms once a slow yield, the admission of the batch or a collection of garbage comes on top. */
const TURN_MS = 10

/** Work that may be interrupted wherever it yields; `inTurns` runs it. @param T what it comes to. */
export type Work<T> = Generator<void, T, void>

interface Waiting {
  owner: string | undefined
  resolve(): void
}

/** Whoever has held the loop for so long at once, of processor time, rests. */
const LONG_MS = 2 * TURN_MS
const rests = new Rests()
const waiting = new OwnerQueue<Waiting, string | undefined>()
let waitingCount = 0
/** What waits goes on, or will in the next turn. */
let isAdvancing = false
/** All that waits rests until then. */
let resting: NodeJS.Timeout | undefined
/** Until when what goes on now may begin work at once; undefined = none of what waited goes on. */
let grantedUntil: number | undefined

const currentOwner = new AsyncLocalStorage<string>()

/** Runs work whose turns, through whatever it waits for, are one owner's. */
export function ownedBy<T>(owner: string, work: () => T): T {
  rests.began(owner)
  const ended = (): void => {
    rests.ended(owner)
    wake()
  }
  let result: T
  try {
    result = currentOwner.run(owner, work)
  } catch (error) {
    ended()
    throw error
  }
  if (result instanceof Promise) result.then(ended, ended)
  else ended()
  return result
}

/** Whose work runs; undefined = nobody's in particular. */
export function owner(): string | undefined {
  return currentOwner.getStore()
}

/** Resolves in a later turn of the loop: owners take turns, and of one owner the work that has waited longest goes on. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    const owner = currentOwner.getStore()
    waiting.push(owner, { owner, resolve })
    if (++waitingCount === 1 && !isAdvancing) later()
    else wake()
  })
}

/** Waits until work may begin: not at all where this turn of the loop has room for it, else as `nextTurn`. For work that comes at any time, much of it at once. */
export async function turnToBegin(): Promise<void> {
  if (!hasRoom()) await nextTurn()
}

function later(): void {
  isAdvancing = true
  setImmediate(advance)
}

/** What rests may go on, or there is something that does not rest. */
function wake(): void {
  if (resting === undefined) return
  clearTimeout(resting)
  resting = undefined
  later()
}

/** Milliseconds until the first of those that wait has rested. */
function untilRested(now: number): number {
  return Math.min(...Array.from(waiting.owners(), (owner) => rests.left(owner, now)))
}

/** Milliseconds of processor time of this thread: a short turn that waits for a processor is not a long one. */
function processorTime(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

/** @param since when the work went on. @param used processorTime() of some time before. */
function heldSince(owner: string | undefined, since: number, used: number): void {
  const now = performance.now()
  if (now - since >= LONG_MS && processorTime() - used >= LONG_MS) rests.held(owner, now - since, now)
}

/** Goes on with what waits by now, one after the other, until that has held the loop for TURN_MS. */
function advance(): void {
  const until = performance.now() + TURN_MS
  const used = processorTime()
  let left = waitingCount
  const goOn = (): void => {
    const since = performance.now()
    const next = waiting.shift((owner) => rests.left(owner, since) === 0)
    if (next === undefined) {
      resting = setTimeout(wake, untilRested(since))
      return
    }
    waitingCount--
    left--
    grantedUntil = since + TURN_MS
    next.resolve()
    whenDone(() => {
      grantedUntil = undefined
      heldSince(next.owner, since, used)
      if (left > 0 && performance.now() < until) goOn()
      else if (waitingCount > 0) later()
      else isAdvancing = false
    })
  }
  goOn()
}

/** Calls back when all has run that goes on now, up to where it waits for something else. */
function whenDone(call: () => void): void {
  void Promise.resolve().then(() => process.nextTick(call))
}

/** When the first work of this turn of the loop has begun; undefined = none has. */
let begun: number | undefined
/** Whose work has begun last in it. */
let beganLast: string | undefined
let usedBefore = 0

/**
 * Whether work may begin at once: many requests that come together, each of them short, would hold the loop for as long as a large one. Whoever has his turn may begin one
 * short work after the other, whoever waits.
 */
function hasRoom(): boolean {
  if (grantedUntil !== undefined) return performance.now() < grantedUntil
  if (waitingCount > 0) return false
  const now = performance.now()
  const owner = currentOwner.getStore()
  if (rests.left(owner, now) > 0 || (begun !== undefined && now - begun >= TURN_MS)) return false
  beganLast = owner
  if (begun !== undefined) return true
  begun = now
  usedBefore = processorTime()
  setImmediate(endTurn)
  return true
}

function endTurn(): void {
  if (begun !== undefined) heldSince(beganLast, begun, usedBefore)
  begun = undefined
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
 * Does work, at once as far as it comes in one turn, where this turn of the loop has room for it. @param ended asked before each further turn: why nobody wants the result
 * any more. The work is then given up; its `finally` blocks run.
 */
export function inTurns<T>(work: Work<T>, ended?: () => Error | undefined): T | Promise<T> {
  if (!hasRoom()) return further(work, ended)
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
