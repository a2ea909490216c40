/**
 * The one suite that every storage engine runs: tables of rules, and random operations compared with the memory engine.
 *
 * An engine's test file calls `conformance('name', makeEngine)`. SVC_SEED=<n> runs a single seed, SVC_SEEDS=<n> that many from
 * the fixed first one, SVC_STEPS=<n> operations in each. SVC_LIVES=all runs each rule about what goes with everything that can
 * happen between its steps; otherwise each has its turn with one of it, for every run makes and ends engines by the dozen.
 */

import type { Capability, StorageEngine } from 'svcdb'
import t, { type Test } from 'tap'
import { admissionConfig, admissionRules } from './admission.ts'
import { aggregateRules } from './aggregates.ts'
import { changeLifeRules, changeRules } from './changes.ts'
import type { EngineUnderTest, MakeEngine } from './context.ts'
import { deleteConfig, deleteRules } from './deletes.ts'
import { dropConfig, dropRules, finalDropConfig, finalDropRules } from './drops.ts'
import { exportConfig, exportRules } from './exports.ts'
import { EVENTS, type Event, type LifeRule, lifeOf } from './life.ts'
import { namespaceRules, namespacesConfig } from './namespaces.ts'
import { nonFiniteRules } from './non-finite.ts'
import { persistenceRules } from './persistence.ts'
import { NOW_MS } from './points.ts'
import { randomConfig, randomRun, unbudgeted } from './random.ts'
import { keepSomeConfig, keepSomeRules, retentionConfig, retentionRules } from './retention.ts'
import { pointRules, type Rule } from './rules.ts'
import { serviceRules } from './services.ts'

export { type EngineUnderTest, type MakeEngine, testContext } from './context.ts'
export { type States, stateRules } from './state.ts'
export { type HistoryOptions, stateHistory } from './state-history.ts'

/** A slow engine on a busy machine; a hang still ends the test. */
const TIMEOUT_MS = 600_000
const FIRST_SEED = 20_240_101

export interface Extent {
  /** What happens between the steps of rules about what goes; one of all when absent. */
  events?: readonly (Event | undefined)[]
  /** `lives` = only rules about what goes, and random operations: as for another way to end of an engine that runs the whole suite as well. `rules` = all others. */
  part?: 'rules' | 'lives'
  /** Series are resolved when a batch is written, not when it is filled: a row with several faults may be refused for another of them than elsewhere. */
  resolvesLate?: boolean
  /** Capabilities that it does not have: their rules are left out, and that it refuses what needs them is looked at instead. */
  lacks?: readonly ('state' | 'changes')[]
  /** Rules that ask for what the engine is not there for, each with the reason. */
  without?: ReadonlyMap<string, string>
}

export function conformance(
  name: string,
  makeEngine: MakeEngine,
  { events = EVENTS, part, resolvesLate = false, lacks = [], without = new Map() }: Extent = {},
): void {
  t.setTimeout(TIMEOUT_MS)
  const withEngine = async (config: Record<string, unknown>, body: (subject: EngineUnderTest) => Promise<void>) => {
    const subject = await makeEngine(config, () => NOW_MS)
    try {
      await body(subject)
    } finally {
      await subject.dispose()
    }
  }
  const left = new Set(without.keys())
  const applies = ([rule]: readonly [string, unknown]): boolean => {
    left.delete(rule)
    return !without.has(rule) && !lacks.some((capability) => rulesOf(capability).has(rule))
  }
  const table = (t: Test, rules: Rule[], config: Record<string, unknown>) =>
    Promise.all(
      rules.filter(applies).map(([rule, body]) => t.test(rule, (t) => withEngine(config, ({ engine }: { engine: StorageEngine }) => body(t, engine)))),
    )

  if (part !== 'lives') rulesAlone()

  /** The events that a rule meets in this run. */
  const turn = (rule: number): readonly (Event | undefined)[] => (process.env.SVC_LIVES === 'all' ? events : [events[rule % events.length]])
  const life = async (t: Test, rules: LifeRule[], config: Record<string, unknown>) => {
    let restarts = true
    for (const one of rules.filter(applies)) {
      const [rule, body] = one
      for (const event of turn(rules.indexOf(one))) {
        if (event === undefined || (event === 'restart' && !restarts)) continue
        await t.test(`${rule} (${event} in between)`, async (t) => {
          const clock = { ms: NOW_MS }
          const subject = await makeEngine(config, () => clock.ms)
          restarts = subject.reopen !== undefined
          try {
            await body(t, lifeOf(subject, clock, event))
          } finally {
            await subject.dispose()
          }
        })
      }
    }
  }
  if (part !== 'rules') lives()

  if (lacks.length > 0) t.test(`${name}: what it lacks it refuses`, (t) => withEngine({}, async ({ engine }) => refusesWhatItLacks(t, engine, lacks)))

  if (without.size > 0 && part === undefined) t.test(`${name}: each rule that is left out is one`, async (t) => t.same([...left], []))

  function lives(): void {
    t.test(`${name}: deletes`, (t) => life(t, deleteRules, deleteConfig))
    t.test(`${name}: drops`, async (t) => {
      await life(t, dropRules, dropConfig)
      await life(t, finalDropRules, finalDropConfig)
    })
    t.test(`${name}: readers of changes`, (t) => life(t, changeLifeRules, dropConfig))
    t.test(`${name}: namespaces`, (t) => life(t, namespaceRules, namespacesConfig))
    t.test(`${name}: retention`, async (t) => {
      await life(t, retentionRules, retentionConfig)
      await life(t, keepSomeRules, keepSomeConfig)
    })
    if (applies(['random operations', undefined]))
      t.test(`${name}: random operations`, { timeout: TIMEOUT_MS }, async (t) => {
        const { SVC_SEED, SVC_SEEDS, SVC_STEPS } = process.env
        const seeds = SVC_SEED === undefined ? Array.from({ length: Number(SVC_SEEDS ?? 2) }, (_, i) => FIRST_SEED + i) : [Number(SVC_SEED)]
        for (const seed of seeds) {
          await t.test(`SVC_SEED=${seed}`, { timeout: TIMEOUT_MS }, async (t) => {
            const { points, compared } = await randomRun(
              makeEngine,
              seed,
              Number(SVC_STEPS ?? 50),
              resolvesLate ? { ...randomConfig, ...unbudgeted } : randomConfig,
              resolvesLate,
            )
            t.ok(points > 0 && compared > 0, `${points} points written, ${compared} rows compared`)
          })
        }
      })
  }

  function rulesAlone(): void {
    t.test(`${name}: points`, async (t) => void (await table(t, pointRules, {})))
    t.test(`${name}: non-finite values`, (t) => life(t, nonFiniteRules, {}))
    t.test(`${name}: aggregates`, (t) => life(t, aggregateRules, {}))
    t.test(`${name}: exports`, (t) => life(t, exportRules, exportConfig))
    t.test(`${name}: admission`, async (t) => void (await table(t, admissionRules, admissionConfig)))
    t.test(`${name}: changes`, async (t) => void (await table(t, changeRules, {})))
    t.test(`${name}: services`, async (t) => void (await table(t, serviceRules, {})))
    t.test(`${name}: persistence`, async (t) => {
      for (const [rule, body] of persistenceRules.filter(applies)) {
        await t.test(rule, (t) =>
          withEngine(admissionConfig, async (subject) => {
            const reopen = subject.reopen?.bind(subject)
            if (reopen === undefined) t.plan(0, 'nothing outlives this engine')
            else await body(t, subject, reopen)
          }),
        )
      }
    })
  }
}

/** Names of the rules that need a capability. */
function rulesOf(capability: 'state' | 'changes'): ReadonlySet<string> {
  const named = (rules: readonly (readonly [string, unknown])[]) => rules.map(([rule]) => rule)
  if (capability === 'changes')
    return new Set([...named(changeRules), ...named(changeLifeRules), ...named(nonFiniteRules).filter((rule) => rule.startsWith('a change '))])
  return new Set([...named(serviceRules), ...named(persistenceRules)].filter((rule) => rule.startsWith('state')))
}

function refusesWhatItLacks(t: Test, engine: StorageEngine, lacks: readonly Capability[]): void {
  for (const capability of lacks) t.notOk(engine.capabilities.has(capability), capability)
  if (lacks.includes('state')) t.throws(() => engine.state('one'), { code: 'METHOD_NOT_ALLOWED' })
  if (lacks.includes('changes')) t.throws(() => engine.changes(), { code: 'METHOD_NOT_ALLOWED' })
}
