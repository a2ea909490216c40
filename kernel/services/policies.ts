/** Decisions by policies over questions of a plugin's own: apart from those about the server's routes, which authorizers answer. */

/** Name of the service that `Policies` is provided under. */
export const POLICIES = 'policies'

/** What policies name as `Type::"id"`. */
export interface PolicyEntity {
  type: string
  id: string
}

/** Whether a principal may do something to a resource. */
export interface PolicyQuestion {
  principal: PolicyEntity
  /** Of the model's actions. */
  action: string
  resource: PolicyEntity
  context: Readonly<Record<string, unknown>>
}

/** `malformed`: it cannot be told, as a policy failed or a name is no text; nothing is permitted then. Reasons are for whoever may read the log. */
export type PolicyAnswer = { outcome: 'permit' } | { outcome: 'deny'; reason: string } | { outcome: 'malformed'; reason: string }

/** Where policies are, and what they are checked against. */
export interface PolicySource {
  /** Folder whose `*.cedar` files are the policies, or one file. */
  path: string
  /** What policies may speak of: a schema of Cedar. */
  schema: string
}

/** Names policies by what they are. */
export interface PolicyBundle {
  /** SHA-256 of the policies, 64 hexadecimal digits. */
  rules: string
  /** What evaluates them, with the version of its language. */
  evaluator: string
  /** SHA-256 of what they may speak of. */
  schema: string
}

/** Policies that were read and checked. */
export interface LoadedPolicies {
  readonly count: number
  /** What answers: others answer otherwise. */
  readonly bundle: PolicyBundle
  decide(question: PolicyQuestion): PolicyAnswer
  close(): void
}

/** The service POLICIES, from the start phase on. */
export interface Policies {
  /** @throws SvcError CONFIG_ERROR naming file, line and column of each problem. */
  load(source: PolicySource): Promise<LoadedPolicies>
}
