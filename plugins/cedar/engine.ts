/** Holds the policies that count now, and answers questions by them. */
import type { Response } from '@cedar-policy/cedar-wasm/nodejs'
import type { Cedar } from './cedar-library.ts'
import { DecisionCache } from './decision-cache.ts'
import type { PolicySet } from './policy-check.ts'
import { type Call, callOf, IllFormed, keyOf, type Question } from './request.ts'
import { fitting, type Scope } from './scope.ts'
import { Slices } from './slices.ts'

/** `malformed`: it cannot be told, as a policy failed or the caller is no text; nothing is allowed then. */
export type Outcome = 'allow' | 'deny' | 'malformed'

export interface Evaluation {
  outcome: Outcome
  cached: boolean
  /** Labels of the policies that decided; none where nothing did, or where it is remembered only. */
  policies: readonly string[]
  /** What failed, by the policy's label. */
  errors: readonly { policy: string; message: string }[]
}

interface Active extends Pick<PolicySet, 'contextUse'> {
  /** Under which Cedar keeps it. */
  name: string
  /** By the number that Cedar gives each policy of a text. */
  labels: readonly string[]
  texts: readonly string[]
  scopes: readonly Scope[]
}

/** Cedar keeps sets by name for as long as the process lives, whoever made them. */
let engines = 0

export class PolicyEngine {
  private readonly cedar: Cedar
  private readonly cacheEntries: number
  private readonly names: readonly [string, string]
  private readonly slices: Slices
  private active: Active | undefined
  private cache: DecisionCache
  /** Counts the sets that were put to work. */
  epoch = 0

  constructor(cedar: Cedar, cacheEntries: number) {
    this.cedar = cedar
    this.cacheEntries = cacheEntries
    this.cache = new DecisionCache(cacheEntries)
    const name = `svc-${++engines}`
    this.names = [`${name}-even`, `${name}-odd`]
    this.slices = new Slices(name, (part, text) => this.keep(part, text))
  }

  get policyCount(): number {
    return this.active?.labels.length ?? 0
  }

  get cacheSize(): number {
    return this.cache.size
  }

  /** Puts a checked set in the place of the one before, between two decisions. @throws Error, and the one before stays. */
  activate({ policies, contextUse }: PolicySet): void {
    const before = this.active
    const name = this.names[(this.epoch + 1) % 2]
    const all = [...policies.values()]
    const texts = all.map(({ text }) => text)
    // As one text, which is read three times as fast as one by one.
    this.keep(name, texts.join('\n'))
    this.active = { name, contextUse, labels: [...policies.keys()], texts, scopes: all.map(({ scope }) => scope) }
    this.epoch++
    this.cache = new DecisionCache(this.cacheEntries)
    this.slices.clear()
    if (before !== undefined) this.forget(before.name)
  }

  /** Nothing is allowed from then on. */
  close(): void {
    const before = this.active
    this.active = undefined
    this.cache = new DecisionCache(0)
    this.slices.clear()
    if (before !== undefined) this.forget(before.name)
  }

  /** Undefined without policies. @throws Error when the engine fails: nothing is decided then. */
  decide(question: Question): Evaluation | undefined {
    const { active } = this
    if (active === undefined) return undefined
    const key = keyOf(question, active.contextUse)
    const known = key === undefined ? undefined : this.cache.get(key)
    if (known !== undefined) return { outcome: known, cached: true, policies: [], errors: [] }
    const evaluation = this.evaluate(question, active)
    if (key !== undefined) this.cache.set(key, evaluation.outcome)
    return evaluation
  }

  private evaluate(question: Question, { name, contextUse, labels, texts, scopes }: Active): Evaluation {
    let call: Call
    try {
      call = callOf(question, contextUse)
    } catch (error) {
      if (!(error instanceof IllFormed)) throw error
      return { outcome: 'malformed', cached: false, policies: [], errors: [{ policy: '', message: error.message }] }
    }
    const indices = fitting(scopes, call)
    if (indices.length === 0) return { outcome: 'deny', cached: false, policies: [], errors: [] }
    const slice = this.slices.nameOf(indices, texts)
    // The set was validated against the schema when it was loaded, and the call is made to fit it.
    const answer = this.cedar.statefulIsAuthorized({ ...call, preparsedPolicySetId: slice ?? name, validateRequest: false } as never)
    if (answer.type === 'failure') throw new Error(`cannot evaluate the policies: ${answer.errors.map(({ message }) => message).join('; ')}`)
    return { cached: false, ...outcomeOf(answer.response, slice === undefined ? labels : indices.map((i) => labels[i])) }
  }

  private keep(name: string, text: string): void {
    const answer = this.cedar.preparsePolicySet(name, { staticPolicies: text })
    if (answer.type === 'failure') throw new Error(`cannot use the policies: ${answer.errors.map(({ message }) => message).join('; ')}`)
  }

  /** There is no other way to have Cedar free a set than to put another under its name. */
  private forget(name: string): void {
    this.keep(name, '')
  }
}

function outcomeOf({ decision, diagnostics }: Response, labels: readonly string[]): Omit<Evaluation, 'cached'> {
  const labelOf = (id: string) => labels[Number(id.slice('policy'.length))] ?? id
  const policies = diagnostics.reason.map(labelOf)
  const errors = diagnostics.errors.map(({ policyId, error }) => ({ policy: labelOf(policyId), message: error.message }))
  // A policy that fails is left out by Cedar; had it been a refusal, the call would be allowed.
  if (errors.length > 0) return { outcome: 'malformed', policies, errors }
  return { outcome: decision === 'allow' ? 'allow' : 'deny', policies, errors }
}
