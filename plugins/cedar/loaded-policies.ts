/** The service POLICIES: policies of other plugins, each set with a schema of its own, apart from those about the server's routes. */
import { hash } from 'node:crypto'
import { stat } from 'node:fs/promises'
import type { LoadedPolicies, Policies, PolicyAnswer, PolicyBundle, PolicyQuestion, PolicySource } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type Cedar, loadCedar } from './cedar-library.ts'
import { checkInThread } from './check-thread.ts'
import type { PolicySet } from './policy-check.ts'
import { readPolicies } from './policy-files.ts'

const SHOWN_PROBLEMS = 20

export class PolicyLoader implements Policies {
  private readonly maxBytes: number
  private readonly over = new AbortController()

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
  }

  async load({ path, schema }: PolicySource): Promise<LoadedPolicies> {
    try {
      const found = await stat(path).catch((error: Error) => {
        throw new Error(`cannot read the policies of "${path}": ${error.message}; name a folder or a file`)
      })
      const { files } = await readPolicies({ path, kind: found.isDirectory() ? 'folder' : 'file', maxBytes: this.maxBytes })
      const { set, problems } = await checkInThread(files, { signal: this.over.signal, schema })
      const more = problems.length > SHOWN_PROBLEMS ? [`and ${problems.length - SHOWN_PROBLEMS} more`] : []
      if (problems.length > 0) throw new Error(`cannot use the policies of "${path}": ${[...problems.slice(0, SHOWN_PROBLEMS), ...more].join('\n')}`)
      return new PolicyDecider(await loadCedar(), set, schema)
    } catch (error) {
      throw new SvcError('CONFIG_ERROR', (error as Error).message, { cause: error })
    }
  }

  /** Checks that are under way end. */
  close(): void {
    this.over.abort()
  }
}

/** Cedar keeps sets by name for as long as the process lives. */
let deciders = 0

class PolicyDecider implements LoadedPolicies {
  private readonly cedar: Cedar
  private readonly name = `svc-loaded-${++deciders}`
  /** By the number that Cedar gives each policy of a text. */
  private readonly labels: readonly string[]
  private readonly reasons: readonly (string | undefined)[]
  private closed = false
  readonly bundle: PolicyBundle

  constructor(cedar: Cedar, { policies }: PolicySet, schema: string) {
    this.cedar = cedar
    // In which files they stand, and in what order, says nothing.
    const rules = hash('sha256', JSON.stringify([...policies.values()].map(({ text }) => text).sort()))
    this.bundle = { rules, evaluator: `cedar ${cedar.getCedarLangVersion()}`, schema: hash('sha256', schema) }
    this.labels = [...policies.keys()]
    this.reasons = [...policies.values()].map(({ reason }) => reason)
    this.keep([...policies.values()].map(({ text }) => text).join('\n'))
  }

  get count(): number {
    return this.labels.length
  }

  decide({ principal, action, resource, context }: PolicyQuestion): PolicyAnswer {
    const malformed = (reason: string): PolicyAnswer => ({ outcome: 'malformed', reason })
    if (this.closed) return malformed('the server stops')
    if (![principal.id, resource.id].every((text) => text.isWellFormed())) return malformed('a name is no Unicode text')
    try {
      const answer = this.cedar.statefulIsAuthorized({
        principal,
        action: { type: 'Action', id: action },
        resource,
        context,
        entities: [],
        preparsedPolicySetId: this.name,
        validateRequest: false,
      } as never)
      if (answer.type === 'failure') return malformed(answer.errors.map(({ message }) => message).join('; '))
      const { decision, diagnostics } = answer.response
      // A policy that fails is left out by Cedar; had it been a refusal, the call would be allowed.
      if (diagnostics.errors.length > 0)
        return malformed(diagnostics.errors.map(({ policyId, error }) => `${this.labels[numberOf(policyId)] ?? policyId}: ${error.message}`).join('; '))
      return decision === 'allow' ? { outcome: 'permit' } : { outcome: 'deny', reason: this.reasonOf(diagnostics.reason) }
    } catch (error) {
      return malformed((error as Error).message)
    }
  }

  /** Safe twice. There is no other way to have Cedar free a set than to put another under its name. */
  close(): void {
    if (!this.closed) this.keep('')
    this.closed = true
  }

  /** What the policies that forbid say in `@reason`. */
  private reasonOf(policies: readonly string[]): string {
    if (policies.length === 0) return 'no policy permits it'
    const said = policies.flatMap((id) => this.reasons[numberOf(id)] ?? [])
    return said.length === 0 ? 'a policy forbids it' : said.join('; ')
  }

  /** @throws Error for policies that cannot be used. */
  private keep(text: string): void {
    const answer = this.cedar.preparsePolicySet(this.name, { staticPolicies: text })
    if (answer.type === 'failure') throw new Error(`cannot use the policies: ${answer.errors.map(({ message }) => message).join('; ')}`)
  }
}

function numberOf(id: string): number {
  return Number(id.slice('policy'.length))
}
