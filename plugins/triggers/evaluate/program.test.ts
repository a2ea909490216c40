/** Conditions are made ready in steps: whoever changes one of a thousand triggers must not hold the event loop for all their comparisons. */
import t from 'tap'
import type { Condition } from '../statement/condition.ts'
import { parseStatement } from '../statement/parse.ts'
import { compile } from './program.ts'

const LIMITS = { maxBytes: 65_536, maxComparisons: 32, maxDepth: 16, maxChannels: 4 }
const COMPARISONS = 32
const TRIGGERS = 500

function conditionOf(text: string): Condition {
  const statement = parseStatement(`CREATE TRIGGER a ON m WHEN ${text}`, LIMITS)
  if (statement.kind !== 'create' || statement.condition.kind === 'signals') throw new Error(text)
  return statement.condition
}

const conditions = (field: (k: number) => string): Condition[] =>
  Array.from({ length: TRIGGERS }, (_, i) => conditionOf(Array.from({ length: COMPARISONS }, (_, k) => `${field(k)} > ${i * COMPARISONS + k}`).join(' OR ')))

for (const [name, field] of Object.entries({ 'one field': () => 'v', 'fields of long names': (k: number) => `${'f'.repeat(200)}${k}` })) {
  t.test(name, (t) => {
    const all = conditions(field)
    const work = compile(all)
    let steps = 1
    let step = work.next()
    for (; step.done !== true; step = work.next()) steps++
    t.ok(steps > TRIGGERS, `${steps} steps`)
    t.equal(step.value.roots.length, TRIGGERS)
    t.equal(step.value.fieldAtoms.length, TRIGGERS * COMPARISONS)
    t.end()
  })
}
