/**
 * Names of users, roles and namespaces with everything that could end a string or start another, against a model of plain comparisons.
 * node plugins/cedar/decide.fuzz.ts [seconds] [seed]
 */
import { type Random, seeded } from 'svcdb/lib/random'
import { type Cedar, loadCedar } from './cedar-library.ts'
import { type Outcome, PolicyEngine } from './engine.ts'
import { checkPolicies } from './policy-check.ts'
import type { Question } from './request.ts'

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]
// biome-ignore format: a list
// biome-ignore lint/suspicious/noTemplateCurlyInString: a fragment of a name
const FRAGMENTS = ['a', 'b', '"', '\\', '\\"', '::', '"] , Svc::Role::"root', '\u0000', '\n', '\r\n', '*', '?principal', '${x}', '{"__entity":', '__proto__', 'é', 'e\u0301', '漢', '😀', '\u202e', '\ufeff', '\ufffd', '\ud800', '\udc00', ' ', '#', '//', '\u{10ffff}']

function name(random: Random): string {
  if (random() < 0.02) return pick(random, FRAGMENTS).repeat(1 + Math.floor(random() * 5000))
  return Array.from({ length: Math.floor(random() * 4) }, () => pick(random, FRAGMENTS)).join('')
}

/** A Cedar string: all but letters as code points. */
const literal = (text: string): string => `"${text.replace(/[^a-z]/gu, (one) => `\\u{${(one.codePointAt(0) as number).toString(16)}}`)}"`

interface Rule {
  effect: 'permit' | 'forbid'
  user?: string
  role?: string
  namespace?: string
  tenant?: string
}

function rule(random: Random, names: readonly string[]): Rule {
  const maybe = () => (random() < 0.4 ? pick(random, names) : undefined)
  return { effect: random() < 0.7 ? 'permit' : 'forbid', ...(random() < 0.5 ? { user: maybe() } : { role: maybe() }), namespace: maybe(), tenant: maybe() }
}

function textOf({ effect, user, role, namespace, tenant }: Rule): string {
  const principal = user !== undefined ? ` == Svc::User::${literal(user)}` : role !== undefined ? ` in Svc::Role::${literal(role)}` : ''
  const resource = namespace === undefined ? '' : ` == Svc::Namespace::${literal(namespace)}`
  const condition = tenant === undefined ? '' : ` when { context has tenant && context.tenant == ${literal(tenant)} }`
  return `${effect}(principal${principal}, action == Svc::Action::"Read", resource${resource})${condition};`
}

/** What the model says. */
function expected(rules: readonly Rule[], { context, namespace }: Question): Outcome {
  const tenant = context.claims.tenant_id as string | undefined
  const asksTenant = rules.some((one) => one.tenant !== undefined)
  const words = [context.principal, namespace as string, ...context.roles, ...(asksTenant && tenant !== undefined ? [tenant] : [])]
  if (words.some((word) => !word.isWellFormed())) return 'malformed'
  const fitting = rules.filter(
    (one) =>
      (one.user === undefined || one.user === context.principal) &&
      (one.role === undefined || context.roles.includes(one.role)) &&
      (one.namespace === undefined || one.namespace === namespace) &&
      (one.tenant === undefined || one.tenant === tenant),
  )
  return fitting.some(({ effect }) => effect === 'permit') && !fitting.some(({ effect }) => effect === 'forbid') ? 'allow' : 'deny'
}

function engineOf(cedar: Cedar, text: string): PolicyEngine {
  const { set, problems } = checkPolicies(cedar, [{ name: 'fuzz.cedar', text }])
  if (problems.length > 0) throw new Error(problems.join('\n'))
  const engine = new PolicyEngine(cedar, 100)
  engine.activate(set)
  return engine
}

/** Runs while `goesOn(questions)` holds; returns how many questions were answered, by outcome. @throws when one is answered wrongly. */
export async function fuzz(seed: number, goesOn: (questions: number) => boolean): Promise<Record<Outcome, number>> {
  const random = seeded(seed)
  const cedar = await loadCedar()
  const counts = { allow: 0, deny: 0, malformed: 0 }
  while (goesOn(counts.allow + counts.deny + counts.malformed)) {
    const names = Array.from({ length: 6 }, () => name(random))
    const sound = names.filter((one) => one.isWellFormed())
    const rules = Array.from({ length: 1 + Math.floor(random() * 5) }, () => rule(random, sound.length > 0 ? sound : ['']))
    const text = rules.map(textOf).join('\n')
    const engine = engineOf(cedar, text)
    for (let i = 0; i < 100; i++) {
      const any = () => (random() < 0.8 ? pick(random, names) : name(random))
      const roles = Array.from({ length: Math.floor(random() * 4) }, any)
      const claims = random() < 0.5 ? {} : { tenant_id: any() }
      const context = { principal: any(), roles, method: 'test', claims, address: undefined, requestId: 'r' }
      const asked: Question = { context, action: 'Read', namespace: any(), route: '/', now: 0 }
      const outcome = engine.decide(asked)?.outcome as Outcome
      counts[outcome]++
      const right = expected(rules, asked)
      if (outcome !== right) throw new Error(`seed ${seed}: ${text}\n${JSON.stringify(asked)}: ${outcome}, expected ${right}`)
    }
    engine.close()
  }
  return counts
}

if (process.argv[1] === import.meta.filename) {
  const seed = Number(process.argv[3] ?? Date.now() % 1e9)
  const until = Date.now() + Number(process.argv[2] ?? 10) * 1000
  console.log(`seed ${seed}: ${JSON.stringify(await fuzz(seed, () => Date.now() < until))}, as the model has it`)
}
