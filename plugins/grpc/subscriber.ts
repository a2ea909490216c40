/**
 * One Subscribe: takes changes from its cursor and hands them to its client, a message at a time, at the client's pace. Writers wait for no subscriber: its
 * cursor stays behind, and goes on out of the log.
 */
import { setImmediate } from 'node:timers/promises'
import type { Change, ChangeCursor, Clock, Counter } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { SendMessage } from 'svcdb/lib/grpc'
import type { ChangeMessages } from './change-messages.ts'
import type { GrpcPluginConfig } from './config.ts'
import { partialPosition, type Subscription } from './subscription.ts'

const LOOK_MS = 1000

interface SubscriberDependencies {
  cursor: ChangeCursor
  subscription: Subscription
  messages: ChangeMessages
  send: SendMessage
  /** @throws why the caller may read no more. */
  stands(): void | Promise<void>
  clock: Clock
  config: GrpcPluginConfig
  counters: { rows: Counter; gaps: Counter }
}

export class Subscriber {
  /** Ends the call with an error, also while its client takes nothing. */
  fail: (error: unknown) => void = () => {}
  private readonly dependencies: SubscriberDependencies
  private readonly began: number
  private over = false
  private lastSent: number
  /** Since when a message waits for the client. */
  private waitingSince: number | undefined
  private wake: () => void = () => {}
  private cancelLook: () => void = () => {}

  constructor(dependencies: SubscriberDependencies) {
    this.dependencies = dependencies
    this.began = this.lastSent = dependencies.clock.monotonic()
  }

  /** Commits that the client has not been told of. */
  get behind(): number {
    return this.dependencies.cursor.behind
  }

  async run(): Promise<void> {
    try {
      await new Promise<void>((resolve, reject) => {
        this.fail = reject
        this.look()
        this.tell().then(resolve, reject)
      })
    } finally {
      this.over = true
      this.cancelLook()
      this.wake()
      this.dependencies.cursor.close()
    }
  }

  private get lasted(): boolean {
    const { clock, config } = this.dependencies
    return clock.monotonic() - this.began >= config.max_subscribe_secs * 1000
  }

  private async tell(): Promise<void> {
    const { cursor, subscription, messages, config, clock } = this.dependencies
    let { within } = subscription
    let before = subscription.after ?? (await cursor.position())
    await this.send(messages.progress(within === undefined ? before : partialPosition(before, within.change, within.parts, subscription.filters)))
    let next = this.ask()
    while (!this.over) {
      if (!next.arrived) await this.arrival(next)
      if (this.over) return
      const last = this.lasted
      if (next.arrived) {
        const { done, value } = await next.result
        if (done) throw new SvcError('DATABASE_CLOSED', 'cannot go on with the subscription: the storage was closed; subscribe again after the last position')
        // What it was within may be gone, and another change be the first.
        await this.tellChange(value, before, value.position === within?.change && value.kind !== 'gap' ? within.parts : 0)
        within = undefined
        before = value.position
        if (last) return
        next = this.ask()
      } else if (last || clock.monotonic() - this.lastSent >= config.subscribe_progress_secs * 1000) {
        if (within === undefined) await this.tellProgress(next)
        if (last) return
      }
    }
  }

  private ask(): Asked {
    const asked: Asked = { result: this.dependencies.cursor.next(), arrived: false }
    const settled = (): void => {
      asked.arrived = true
      this.wake()
    }
    asked.result.then(settled, settled)
    return asked
  }

  /** Until there is a change, or a look at the clock is due. Not a race: one against a promise that lives on would keep something for each change. */
  private arrival(asked: Asked): Promise<void> {
    return new Promise((resolve) => {
      this.wake = resolve
      if (asked.arrived || this.over) resolve()
    })
  }

  private async tellChange(change: Change, before: string, skip: number): Promise<void> {
    const { messages, subscription, counters, stands } = this.dependencies
    // Not by the next look: when the credential has ended with its namespace, the change is of whoever has the name next.
    await stands()
    for (const message of messages.encode(change, (parts) => partialPosition(before, change.position, parts, subscription.filters), skip))
      await this.send(message)
    counters.rows.inc(messages.rows)
    counters.gaps.inc(messages.gaps)
    messages.rows = messages.gaps = 0
  }

  /** Where the cursor is, so that a subscriber of little does not fall out of the log. Not while a change is on its way: its position would count as told. */
  private async tellProgress(asked: Asked): Promise<void> {
    const position = await this.dependencies.cursor.position()
    // The cursor may have been given a change while it was asked; that is known after a turn.
    await setImmediate()
    if (!asked.arrived) await this.send(this.dependencies.messages.progress(position))
  }

  private async send(message: Uint8Array): Promise<void> {
    const { clock, send } = this.dependencies
    this.lastSent = this.waitingSince = clock.monotonic()
    await send(message)
    this.waitingSince = undefined
  }

  /** Once a second: the client's pace, the credential, the clock. */
  private look(): void {
    const { clock, config } = this.dependencies
    this.cancelLook = clock.after(LOOK_MS, async () => {
      try {
        await this.dependencies.stands()
        if (this.over) return
        const { slow_subscriber_secs: patience } = config
        if (this.waitingSince !== undefined && clock.monotonic() - this.waitingSince >= patience * 1000)
          throw new SvcError(
            'BACKPRESSURE',
            `cannot send more changes: the client has kept a message waiting for ${patience} s (grpc.slow_subscriber_secs); subscribe again after the last position`,
          )
      } catch (error) {
        this.fail(error)
        return
      }
      this.wake()
      this.look()
    })
  }
}

interface Asked {
  result: ReturnType<ChangeCursor['next']>
  arrived: boolean
}
