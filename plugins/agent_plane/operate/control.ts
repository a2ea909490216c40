/** What operators see of the halts, pushes and slots of a tenant, and of all that needs a person. */
import type { StateStore } from 'svcdb'
import type {
  AttentionOperations,
  AttentionView,
  HaltLifted,
  HaltLiftView,
  HaltOperations,
  HaltPlaced,
  HaltView,
  LiveOperations,
  LiveRunView,
  Operator,
  Page,
  ParkedPushView,
  PushOperations,
} from 'svcdb/agents'
import { attention } from '../attention/conditions.ts'
import type { Driver } from '../drive/driver.ts'
import { coversOf, liftedHalts, reachOf, standingHalts } from '../halts/store.ts'
import { redacted } from '../push/config.ts'
import { parkedPushes, rearm } from '../push/store.ts'
import { actingOf, slots } from '../quota/store.ts'
import { isHeld, leaseOf } from '../store/leases.ts'
import { cut } from './runs.ts'

/** What there is from the ready phase on. */
interface ControlDependencies {
  state(): StateStore
  driver(): Driver
  now(): number
  leaseMs: number
}

export class OperatedHalts implements HaltOperations {
  private readonly dependencies: ControlDependencies

  constructor(dependencies: ControlDependencies) {
    this.dependencies = dependencies
  }

  async standing(): Promise<HaltView[]> {
    return (await standingHalts(this.dependencies.state())).map((halt) => ({ ...halt, covers: coversOf(halt.scope) }))
  }

  async lifted(limit: number): Promise<Page<HaltLiftView>> {
    return cut(await liftedHalts(this.dependencies.state(), limit + 1), limit)
  }

  async place(scope: string, asked: string, operator: Operator): Promise<HaltPlaced> {
    const { reason, by, basis } = await this.dependencies.driver().halt(scope, asked, operator)
    return { scope, halted: true, reason, by, basis, reach: reachOf(scope) }
  }

  async lift(scope: string, { actor: by, basis }: Operator): Promise<HaltLifted> {
    const lifted = await this.dependencies.driver().lift(scope, { actor: by, basis })
    return { scope, halted: false, was_standing: lifted !== undefined, by, basis, record: lifted?.record ?? null, removed: lifted !== undefined }
  }
}

export class OperatedPush implements PushOperations {
  private readonly dependencies: ControlDependencies

  constructor(dependencies: ControlDependencies) {
    this.dependencies = dependencies
  }

  async parked(limit: number): Promise<Page<ParkedPushView>> {
    const rows = (await parkedPushes(this.dependencies.state(), limit + 1)).map(({ run, row }) => ({
      config: redacted(run, row.config),
      next_seq: row.next_seq,
      attempts: row.attempts,
      ...(row.last_error === undefined ? {} : { last_error: row.last_error }),
    }))
    return cut(rows, limit)
  }

  rearm(run: string, id: string): Promise<boolean> {
    return this.dependencies.state().transaction((tx) => rearm(tx, run, id, this.dependencies.now()))
  }
}

export class OperatedLive implements LiveOperations {
  private readonly dependencies: ControlDependencies

  constructor(dependencies: ControlDependencies) {
    this.dependencies = dependencies
  }

  async list(limit: number, subject?: string): Promise<Page<LiveRunView>> {
    const state = this.dependencies.state()
    const { rows, truncated } = cut(await slots(state, limit + 1), limit)
    const views: LiveRunView[] = []
    for (const { run } of rows) {
      const { agent, subjects } = await actingOf(state, run)
      if (subject !== undefined && !subjects.includes(subject)) continue
      const stranded = !isHeld(await leaseOf(state, run), this.dependencies.now(), this.dependencies.leaseMs)
      views.push({ run, agent: agent ?? null, subject: subjects[0] ?? null, stranded })
    }
    return { rows: views, truncated }
  }
}

export class OperatedAttention implements AttentionOperations {
  private readonly dependencies: ControlDependencies
  private readonly sends: boolean

  /** @param sends whether the plane has pushes. */
  constructor(dependencies: ControlDependencies, sends: boolean) {
    this.dependencies = dependencies
    this.sends = sends
  }

  view(): Promise<AttentionView> {
    return attention(this.dependencies.state(), this.dependencies.now(), this.sends)
  }
}
