/**
 * Policies with scopes of every form, some of which fail, and calls of every kind: what the engine decides by the policies that can apply is what
 * Cedar decides by all of them, with the same reasons and the same failures.
 * node plugins/cedar/scope.fuzz.ts [seconds] [seed]
 */
import { type Random, seeded } from 'svcdb/lib/random'
import { type Cedar, loadCedar } from './cedar-library.ts'
import { PolicyEngine } from './engine.ts'
import { CAPABILITIES, DATA_ACTIONS } from './model.ts'
import { checkPolicies } from './policy-check.ts'
import { CONTEXT_ATTRIBUTES, callOf, type Question } from './request.ts'

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]
const some = <T>(random: Random, list: readonly T[]): T[] => list.filter(() => random() < 0.4)
/** One is a type's beginning, and one has what separates a type from a name. */
const WORDS = ['a', 'b', 'Svc::Role', 'a b', '\u{e9}', 'e\u{301}']
const ACTIONS = [...Object.values(DATA_ACTIONS), ...CAPABILITIES]
const REFERENCE = 'fuzz-reference'

function scope(random: Random): string {
  const entity = (type: string, ids: readonly string[] = WORDS) => `Svc::${type}::"${pick(random, ids)}"`
  const user = () => entity('User')
  const role = () => entity('Role')
  const action = () => entity('Action', [...ACTIONS, 'Admin'])
  const principal = pick(random, ['', ` == ${user()}`, ` in ${role()}`, ` in ${user()}`, ' is Svc::User', ` is Svc::User in ${role()}`])
  const actions = pick(random, [
    '',
    '',
    ` == ${action()}`,
    ` in ${action()}`,
    ' in Svc::Action::"Admin"',
    ` in [${[action(), ...some(random, ACTIONS).map((id) => `Svc::Action::"${id}"`)].join(', ')}]`,
  ])
  const space = entity('Namespace')
  const resource = pick(random, [
    '',
    ` == ${space}`,
    ` in ${space}`,
    ' is Svc::Namespace',
    ` is Svc::Namespace in ${space}`,
    ' == Svc::System::"svc"',
    ' is Svc::System',
  ])
  return `(principal${principal}, action${actions}, resource${resource})`
}

const CONDITIONS = ['', '', '', ' when { context.hour < 12 }', ' unless { principal.name == "a" }', ' when { Svc::User::"eve".name == "eve" }']

function policy(random: Random): string {
  // Some are so long that the whole set serves.
  const note = random() < 0.03 ? `@note("${'x'.repeat(9000)}") ` : ''
  return `${note}${random() < 0.7 ? 'permit' : 'forbid'}${scope(random)}${pick(random, CONDITIONS)};`
}

function question(random: Random): Question {
  const context = { principal: pick(random, WORDS), roles: some(random, WORDS), method: 'test', claims: {}, address: undefined, requestId: 'r' }
  const data = random() < 0.7
  const action = data ? pick(random, Object.values(DATA_ACTIONS)) : pick(random, CAPABILITIES)
  return { context, action, namespace: data ? pick(random, WORDS) : undefined, route: '/', now: Math.floor(random() * 86_400_000) }
}

/** By all policies at once. */
function reference(cedar: Cedar, asked: Question, labels: readonly string[]): object {
  const answer = cedar.statefulIsAuthorized({
    ...callOf(asked, Object.keys(CONTEXT_ATTRIBUTES)),
    preparsedPolicySetId: REFERENCE,
    validateRequest: false,
  } as never)
  if (answer.type === 'failure') throw new Error(JSON.stringify(answer.errors))
  const { decision, diagnostics } = answer.response
  const label = (id: string) => labels[Number(id.slice('policy'.length))]
  return {
    outcome: diagnostics.errors.length > 0 ? 'malformed' : decision,
    policies: diagnostics.reason.map(label).sort(),
    errors: diagnostics.errors.map(({ policyId }) => label(policyId)).sort(),
  }
}

/** Runs while `goesOn(questions)` holds; returns how many questions were answered, by outcome. @throws when one is answered otherwise. */
export async function fuzz(seed: number, goesOn: (questions: number) => boolean): Promise<Record<string, number>> {
  const random = seeded(seed)
  const cedar = await loadCedar()
  const counts: Record<string, number> = { allow: 0, deny: 0, malformed: 0 }
  while (goesOn(counts.allow + counts.deny + counts.malformed)) {
    const text = Array.from({ length: 1 + Math.floor(random() * 25) }, () => policy(random)).join('\n')
    const { set, problems } = checkPolicies(cedar, [{ name: 'p.cedar', text }])
    // Types that cannot go together, such as an action on data with the system, are warnings.
    if (problems.length > 0) throw new Error(`seed ${seed}: ${problems.join('\n')}`)
    const engine = new PolicyEngine(cedar, 0)
    engine.activate(set)
    cedar.preparsePolicySet(REFERENCE, { staticPolicies: text })
    for (let i = 0; i < 150; i++) {
      const asked = question(random)
      const { outcome, policies, errors } = engine.decide(asked) ?? {}
      counts[outcome as string]++
      const found = JSON.stringify({ outcome, policies: [...(policies ?? [])].sort(), errors: errors?.map((error) => error.policy).sort() })
      const right = JSON.stringify(reference(cedar, asked, [...set.policies.keys()]))
      if (found !== right) throw new Error(`seed ${seed}: ${text}\n${JSON.stringify(asked)}: ${found}, expected ${right}`)
    }
    engine.close()
  }
  return counts
}

if (process.argv[1] === import.meta.filename) {
  const seed = Number(process.argv[3] ?? Date.now() % 1e9)
  const until = Date.now() + Number(process.argv[2] ?? 10) * 1000
  console.log(`seed ${seed}: ${JSON.stringify(await fuzz(seed, () => Date.now() < until))}, as Cedar has it by all policies`)
}
