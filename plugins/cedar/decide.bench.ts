/**
 * Time of a decision, remembered and not, by number of policies; and memory over many decisions and sets.
 * node plugins/cedar/decide.bench.ts [decisions] [sets]
 */
import { loadCedar } from './cedar-library.ts'
import { checkInThread } from './check-thread.ts'
import { PolicyEngine } from './engine.ts'
import type { PolicySet } from './policy-check.ts'
import type { Question } from './request.ts'

const decisions = Number(process.argv[2] ?? 1_000_000)
const sets = Number(process.argv[3] ?? 100)
const NANOS_PER_MICRO = 1000

const WITHIN = ' when { context has ip_address && context.ip_address.isInRange(ip("10.0.0.0/8")) }'
function policies(count: number, condition = ''): string {
  const one = (i: number) =>
    `permit(principal in Svc::Role::"role-${i}", action in [Svc::Action::"Read", Svc::Action::"Write"], resource == Svc::Namespace::"ns-${i}")${condition};`
  return Array.from({ length: count }, (_, i) => one(i)).join('\n')
}

function question(i: number): Question {
  const n = i % 10
  const context = { principal: `user-${n}`, roles: [`role-${n}`, 'staff'], method: 'api_key', claims: {}, address: '10.1.2.3', requestId: `r${i}` }
  return { context, action: 'Write', namespace: `ns-${n}`, route: '/write', now: Date.now() }
}

function times(engine: PolicyEngine, count: number): string {
  for (let i = 0; i < count / 4; i++) engine.decide(question(i))
  const taken = new Float64Array(count)
  for (let i = 0; i < count; i++) {
    const asked = question(i)
    const start = process.hrtime.bigint()
    const answer = engine.decide(asked)
    taken[i] = Number(process.hrtime.bigint() - start) / NANOS_PER_MICRO
    if (answer?.outcome !== 'allow') throw new Error(`${i}: ${answer?.outcome}`)
  }
  taken.sort()
  const at = (part: number) => taken[Math.floor(part * (count - 1))].toFixed(1).padStart(8)
  return `p50 ${at(0.5)} us  p99 ${at(0.99)} us`
}

async function setOf(text: string): Promise<PolicySet> {
  const { set, problems } = await checkInThread([{ name: 'all.cedar', text }])
  if (problems.length > 0) throw new Error(problems.join('\n'))
  return set
}

function memory(): string {
  globalThis.gc?.()
  const { rss, external, heapUsed } = process.memoryUsage()
  const mib = (bytes: number) => (bytes / 2 ** 20).toFixed(0).padStart(5)
  return `rss ${mib(rss)} MiB  outside of the heap, WebAssembly included ${mib(external)} MiB  heap ${mib(heapUsed)} MiB`
}

let start = performance.now()
const cedar = await loadCedar()
console.log(`the engine is loaded, and the main thread waits for it, in ${(performance.now() - start).toFixed(0)} ms`)

for (const count of [10, 100, 1000]) {
  for (const [what, condition] of [
    ['', ''],
    [', which look at the address', WITHIN],
  ]) {
    const text = policies(count, condition)
    start = performance.now()
    const set = await setOf(text)
    const checked = performance.now() - start
    const remembering = new PolicyEngine(cedar, 10_000)
    start = performance.now()
    remembering.activate(set)
    const activated = performance.now() - start
    const plain = new PolicyEngine(cedar, 0)
    plain.activate(set)
    console.log(`${count} policies${what}: checked in a thread in ${checked.toFixed(0)} ms, the main thread waits ${activated.toFixed(0)} ms for them`)
    console.log(`  remembered      ${times(remembering, 100_000)}`)
    console.log(`  evaluated anew  ${times(plain, count > 100 ? 1000 : 10_000)}`)
    remembering.close()
    plain.close()
  }
}

const engine = new PolicyEngine(cedar, 10_000)
const [one, other] = [await setOf(policies(100)), await setOf(policies(100, WITHIN))]
engine.activate(one)
console.log(`before: ${memory()}`)
for (let part = 1; part <= 4; part++) {
  for (let i = 0; i < decisions / 4; i++) {
    const asked = question(i)
    // One in ten is new.
    if (i % 10 === 0) asked.context.principal = `user-${part}-${i}`
    engine.decide(asked)
  }
  console.log(`${((decisions / 4) * part).toLocaleString('en')} decisions: ${memory()}`)
}
for (let i = 1; i <= sets; i++) {
  engine.activate(i % 2 === 0 ? one : other)
  engine.decide(question(i))
  if (i % Math.ceil(sets / 4) === 0) console.log(`${i} sets: ${memory()}`)
}
for (let i = 1; i <= 8; i++) await setOf(policies(100))
console.log(`8 checks in threads: ${memory()}`)
