/**
 * The planes of a node as operators have them: one for each tenant. What a plane has no store for is absent. Each area has a file of its own; the routes over
 * it are those of the same name in the plugin `operator_api`.
 */
import type { AgentPlane } from '../index.ts'
import type { TaskOperations } from '../tasks.ts'
import type { CaseOperations, DrillOperations, HoldOperations } from './cases.ts'
import type { AttentionOperations, HaltOperations, LiveOperations, PushOperations } from './control.ts'
import type { EventOperations } from './events.ts'
import type { RunOperations } from './runs.ts'

export type {
  CaseAnswer,
  CaseOperations,
  CaseView,
  DeadlineView,
  DrillOperations,
  DrillView,
  HoldInForce,
  HoldOperations,
  HoldReleaseView,
  HoldView,
} from './cases.ts'
export type * from './control.ts'
export type { DeadLetterView, EventOperations } from './events.ts'
export type { Page, RecordView, RunOperations, RunView, SuspendReason, WaitingRun } from './runs.ts'

/** Name of the service that `AgentPlanes` is provided under. */
export const AGENT_PLANES = 'agent_planes'

/** The tenant of whoever names none. */
export const DEFAULT_TENANT = 'default'

/** The plane of one tenant. */
export interface OperatedPlane {
  readonly tenant: string
  /** Begins and steers runs; what acts on one is there from the ready phase on. */
  readonly agents: AgentPlane
  readonly runs: RunOperations
  readonly events?: EventOperations
  readonly cases?: CaseOperations
  readonly holds?: HoldOperations
  readonly drill?: DrillOperations
  readonly tasks?: TaskOperations
  readonly halts?: HaltOperations
  readonly push?: PushOperations
  readonly live?: LiveOperations
  readonly attention: AttentionOperations
}

/** The service AGENT_PLANES. */
export interface AgentPlanes {
  /** With `default`, in the order of the config. */
  readonly tenants: readonly string[]
  find(tenant: string): OperatedPlane | undefined
}
