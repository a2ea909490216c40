/** What bounds and stops runs: budgets, quotas, halts, and what a plane says of all that needs a person. */
import type { PolicyAnswer, PolicyQuestion } from '../services/policies.ts'
import type { Operator } from './index.ts'

/** The declaration that governs a run. */
export interface AgentRef {
  name: string
  version: string
  /** Of its manifest: 64 hexadecimal digits. */
  digest: string
}

/** Who delivers an event from outside: what that begins acts for them, within their scope. */
export interface Deliverer {
  actor: string
  /** Patterns of capabilities; absent = all. */
  scope?: readonly string[]
  /** Milliseconds since the Unix epoch at which their right ends. */
  notAfter?: number
}

/** One on the chain of those who act for one another. */
export interface ChainLink {
  id: string
  /** Patterns of capabilities, such as `orders.*`; `*` is all. */
  scope: string[]
}

/** Why a budget of a run has run out. Times are seconds. */
export type BudgetExceeded =
  | { limit: 'steps'; allowed: number }
  | { limit: 'effects' | 'tokens' | 'money' | 'wallclock'; allowed: number; used: number }
  | { limit: 'replans' | 'denials'; allowed: number }
  | { limit: 'recorded'; recorded_limit: string; used: string }
  | { limit: 'egress'; allowed: number; used: number; attempted: number }
  | { limit: 'rate'; grant: string; allowed: number; window_seconds: number; reached: number }

/** A stop that stands. Times are Unix seconds. */
export interface HaltRow {
  /** `tenant`, `agent:<name>`, `revision:<digest>`, `subject:<principal>`. */
  scope: string
  reason: string
  by: string
  basis: Operator['basis']
  thrown_at: number
}

/** A halt that was lifted: by whom, and by whom it had been thrown. Times in milliseconds since the Unix epoch. */
export interface HaltLiftView {
  scope: string
  by: string
  basis: Operator['basis']
  lifted_at: number
  reason: string
  thrown_by: string
  thrown_basis: Operator['basis']
  thrown_at: number
  /** The run that says so. */
  record: string
}

/** Asks the policies of a tenant, before something is done: `run:admit`, `effect:perform`. */
export type PlanePolicy = (question: PolicyQuestion) => Promise<PolicyAnswer>

/** Whom to tell what becomes of a run. */
export interface PushConfig {
  /** Of the registration, within the run: 1 to 128 letters, digits, `.`, `_`, `:` and `-`. What begins with `operator:` is the operator's. */
  id: string
  url: string
  /** Sent along as `x-notification-token`. */
  token?: string
  /** Sent along as `authorization`. */
  authentication?: { scheme: string; credentials?: string }
}
