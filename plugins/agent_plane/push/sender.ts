/**
 * Tells those who have registered what the journals of their runs say, from the record on that each has not had. What was taken is noted after it was sent: a
 * crash between the two has it told again, under the same id.
 *
 * Invariants
 * - Tenants have their turns, and within one its receivers: one that fails, or takes long, or has very many registrations, delays none that does not.
 * - A receiver that fails is tried by one registration at a time, after pauses. That it fails counts once for each registration whose time comes meanwhile.
 *   What it refuses of one, such as its credentials, concerns that one alone.
 * - A registration is sent to by one attempt at a time, in the order of its records.
 * - What is in memory is bounded, whatever is due: what finds no room is put off.
 */
import type { WebhookAttempt, WebhookEvent } from 'svcdb'
import type { PushConfig } from 'svcdb/agents'
import { type LaneLimits, Lanes, type Slot } from 'svcdb/lib/lanes'
import type { Sealed } from '../record/record.ts'
import { recordsWithin } from '../store/journal.ts'
import { pushEvent } from './event.ts'
import { type PushTenant, pauseAfter, Receiver, type Registration } from './receiver.ts'
import { advance, clear, duePushes, fail, type PushRow, pushOf, putOff, unregister } from './store.ts'

const PAGE = 256
/** Registrations of a tenant that are looked at before another has its turn. */
const LOOKED_AT = 4096
/** Records of a registration that are told in one turn, and what they may have together: as much is in memory for each attempt that is under way. */
const BATCH = 64
const BATCH_BYTES = 1 << 20
const LANES: LaneLimits = { total: 64, group: 16 }
/** Registrations of a tenant. */
const MAX_WAITING: Waiting = { slow: 1024, quick: 4096 }
const MAX_RECEIVERS = 4096
const MAX_FAILURES = 32
const MAX_REASON = 1024
/** A receiver that has not answered for so long is a slow one. */
const SLOW_MS = 1000
const LOOK_MS = 1000
/** As after so many failures: the pause of what finds no room. */
const FULL_PAUSE: Waiting = { slow: 5, quick: 1 }

/** With receivers that fail, are slow or not known yet, and with the others. */
interface Waiting {
  slow: number
  quick: number
}

interface PushSenderTools {
  /** A receiver as it is by now; undefined = it is told nothing any more. Absent = as it was registered. */
  current?(registered: PushConfig): PushConfig | undefined
  /** One attempt. Does not throw. */
  send(config: PushConfig, event: WebhookEvent): Promise<WebhookAttempt>
  /** Milliseconds since the Unix epoch. */
  now(): number
  /** Calls back in so many milliseconds, unless the function that it returns is called before. */
  after(ms: number, act: () => void): () => void
  random(): number
  told(result: 'taken' | 'failed' | 'parked'): void
}

export class PushSender {
  private readonly tools: PushSenderTools
  private readonly lanes = new Lanes<Receiver>(LANES)
  private readonly receivers = new Map<string, Receiver>()
  /** Registrations that wait or are sent to. */
  private readonly taken = new Set<string>()
  private signal: AbortSignal | undefined
  private failure: unknown
  private idle: () => void = () => {}

  constructor(tools: PushSenderTools) {
    this.tools = tools
  }

  /** Tells all whose time has come, as long as there are any or something is being sent. @throws what the store throws. */
  async run(tenants: readonly PushTenant[], signal?: AbortSignal): Promise<void> {
    this.signal = signal
    this.failure = undefined
    try {
      do {
        for (const each of tenants) await this.look(each)
        this.goOn()
      } while (!(await this.settled(LOOK_MS)))
    } finally {
      await this.settled()
      // What still waits, as the work was broken off, is found again.
      for (const { waiting } of this.receivers.values()) waiting.length = 0
      this.taken.clear()
    }
    if (this.failure !== undefined) throw this.failure
  }

  /** Those of a tenant whose time has come wait for their turn, or are put off. */
  private async look(of: PushTenant): Promise<void> {
    const { tenant, state } = of
    const { now } = this.tools
    for (let [looked, after] = [0, '']; looked < LOOKED_AT && !this.signal?.aborted; ) {
      const page = await duePushes(state, now(), PAGE, after)
      const waiting = this.waitingOf(tenant)
      const free = page.filter((each) => !this.taken.has(nameOf(tenant, each)))
      const rows = await Promise.all(free.map(({ run, id }) => pushOf(state, run, id)))
      // Side by side: what is put off shares the syncs of the store, and the next tenant does not wait for one of each.
      const kept = free.map((each, i) => {
        const row = rows[i]
        if (this.taken.has(nameOf(tenant, each))) return undefined
        if (row?.due === undefined) return state.transaction((tx) => clear(tx, each.run, each.id, each.key))
        const config = this.current(row.config)
        if (config === undefined) return state.transaction((tx) => unregister(tx, each.run, each.id))
        return this.enqueue(this.receiverOf(of, config.url), each, row, waiting)
      })
      await Promise.all(kept)
      this.pump()
      if (page.length < PAGE) return
      looked += page.length
      after = (page.at(-1) as Registration).key
    }
  }

  /** Receivers whose pause is over have their turns again. */
  private goOn(): void {
    for (const receiver of this.receivers.values()) if (receiver.waiting.length > 0) this.lanes.ready(receiver)
    this.pump()
  }

  private async enqueue(receiver: Receiver, each: Registration, row: PushRow, waiting: Waiting): Promise<void> {
    const { now, random } = this.tools
    const { state, tenant } = receiver.of
    const at = now()
    const pause = receiver.pauseMs(at)
    // As long as it may not be sent to at least: its failures count, and not how often it was looked whether it may be.
    if (pause > 0) return this.failed(receiver, each, row.next_seq, row.attempts, { result: 'failed', reason: receiver.reason, retryAfterMs: pause })
    const kind = receiver.slow ? 'slow' : 'quick'
    if (receiver.isFull || waiting[kind] >= MAX_WAITING[kind]) {
      const due = at + pauseAfter(FULL_PAUSE[kind], random())
      return state.transaction((tx) => putOff(tx, each, due))
    }
    waiting[kind]++
    receiver.waiting.push(each)
    this.taken.add(nameOf(tenant, each))
    this.lanes.ready(receiver)
  }

  private current(registered: PushConfig): PushConfig | undefined {
    return this.tools.current === undefined ? registered : this.tools.current(registered)
  }

  private waitingOf(tenant: string): Waiting {
    const sums = { slow: 0, quick: 0 }
    for (const { group, slow, waiting } of this.receivers.values()) if (group === tenant) sums[slow ? 'slow' : 'quick'] += waiting.length
    return sums
  }

  private receiverOf(of: PushTenant, url: string): Receiver {
    const key = `${of.tenant} ${url}`
    const known = this.receivers.get(key)
    if (known !== undefined) return known
    if (this.receivers.size >= MAX_RECEIVERS)
      for (const [name, { isIdle }] of this.receivers) {
        if (!isIdle) continue
        this.receivers.delete(name)
        break
      }
    const receiver = new Receiver(of)
    this.receivers.set(key, receiver)
    return receiver
  }

  private pump(): void {
    if (!this.signal?.aborted) this.lanes.pump((receiver, slot) => this.begin(receiver, slot))
    if (this.lanes.inFlight === 0) this.idle()
  }

  private begin(receiver: Receiver, slot: Slot): boolean {
    const next = receiver.next(this.tools.now())
    if (next === undefined) return false
    receiver.inFlight++
    void this.turn(receiver, next, slot)
    return true
  }

  /** One batch of one registration. */
  private async turn(receiver: Receiver, each: Registration, slot: Slot): Promise<void> {
    const name = nameOf(receiver.group, each)
    try {
      if (await this.tell(receiver, each, slot)) receiver.waiting.push(each)
      else this.taken.delete(name)
    } catch (error) {
      this.taken.delete(name)
      this.failure = error
    }
    receiver.inFlight--
    this.lanes.end(slot)
    this.lanes.ready(receiver)
    this.pump()
  }

  /** @returns whether there is more to tell at once. */
  private async tell(receiver: Receiver, each: Registration, slot: Slot): Promise<boolean> {
    const { now, told } = this.tools
    const { state } = receiver.of
    const { run, id } = each
    const row = await pushOf(state, run, id)
    if (row?.due === undefined) {
      await state.transaction((tx) => clear(tx, run, id, each.key))
      return false
    }
    const config = this.current(row.config)
    if (config === undefined) {
      await state.transaction((tx) => unregister(tx, run, id))
      return false
    }
    let next = row.next_seq
    for (const sealed of (await recordsWithin(state, run, next, BATCH, BATCH_BYTES)).found) {
      const began = now()
      const attempt = await this.attempt(receiver, config, sealed, next, slot)
      if (attempt !== undefined && attempt.result !== 'taken') {
        // It was broken off: the receiver has not failed.
        if (this.signal?.aborted) return false
        const attempts = next > row.next_seq ? 0 : row.attempts
        if (next > row.next_seq) await state.transaction((tx) => advance(tx, run, id, next, now()))
        if (attempt.result === 'failed' && !concernsRegistration(attempt))
          for (const other of receiver.failed(began, now(), attempt.reason, this.tools.random(), attempt.retryAfterMs))
            this.taken.delete(nameOf(receiver.group, other))
        await this.failed(receiver, each, next, attempts, attempt)
        return false
      }
      if (attempt !== undefined) {
        told('taken')
        receiver.succeeded()
      }
      next++
    }
    return state.transaction((tx) => advance(tx, run, id, next, now()))
  }

  /** @returns undefined for a record that is told to nobody; one that cannot be read is not told before somebody has repaired it. */
  private async attempt(receiver: Receiver, config: PushConfig, sealed: Sealed, seq: number, slot: Slot): Promise<WebhookAttempt | undefined> {
    const { send, now, after } = this.tools
    let event: WebhookEvent | undefined
    try {
      event = pushEvent(receiver.group, sealed, now())
    } catch (error) {
      return { result: 'refused', reason: `record ${seq} of its run cannot be read: ${(error as Error).message}` }
    }
    if (event === undefined) return undefined
    let slow = false
    const cancel = after(SLOW_MS, () => {
      slow = true
      receiver.slow = true
      this.lanes.markSlow(slot)
      this.pump()
    })
    const attempt = await send(config, event)
    cancel()
    receiver.slow = slow || (attempt.result === 'failed' && !concernsRegistration(attempt))
    return attempt
  }

  /** It is tried later, or not any more. */
  private async failed({ of }: Receiver, { run, id }: Registration, seq: number, before: number, attempt: WebhookAttempt): Promise<void> {
    const { now, random, told } = this.tools
    const isOver = attempt.result === 'refused' || before + 1 >= MAX_FAILURES
    const due = isOver ? undefined : now() + pauseAfter(before + 1, random(), attempt.retryAfterMs)
    told(isOver ? 'parked' : 'failed')
    await of.state.transaction((tx) => fail(tx, run, id, seq, attempt.reason.slice(0, MAX_REASON), due))
  }

  /** @param ms at most so long. @returns whether nothing is being sent, and nothing waits for its turn. */
  private async settled(ms?: number): Promise<boolean> {
    if (this.lanes.inFlight === 0) return true
    await new Promise<void>((resolve) => {
      const cancel = ms === undefined ? () => {} : this.tools.after(ms, resolve)
      this.idle = () => {
        cancel()
        resolve()
      }
    })
    return this.lanes.inFlight === 0
  }
}

/** Answers that say something of the whole receiver, although they are of the client's kind: Request Timeout, Too Early, Too Many Requests. */
const OF_THE_RECEIVER: ReadonlySet<number> = new Set([408, 425, 429])

/** The receiver does not know its credentials, or sends it elsewhere: another registration has others. */
const concernsRegistration = ({ status = 0 }: WebhookAttempt): boolean => status >= 300 && status < 500 && !OF_THE_RECEIVER.has(status)

const nameOf = (tenant: string, { run, id }: Registration): string => `${tenant} ${run} ${id}`
