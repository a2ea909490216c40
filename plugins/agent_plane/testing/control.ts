/** A driver over a store in memory, with a clock that is set. */
import type { StateStore } from 'svcdb'
import { defineSkill, type Json, type RunRequest, type Skill, type StepContext } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import { Driver, type DriverTools } from '../drive/driver.ts'
import { decode, type JournalRecord } from '../record/record.ts'
import { recordsOf } from '../store/journal.ts'
import { memoryState } from './world.ts'

export const LEASE_MS = 30_000

export interface Controlled {
  state: StateStore
  clock: { now: number }
  /** Another process over the same store. */
  driver(tools?: Partial<DriverTools>): Driver
  /** Admits and drives. */
  run(driver: Driver, capability: string, more?: Partial<RunRequest>): Promise<{ run: string; status: string }>
  records(run: string, kind?: string): Promise<JournalRecord[]>
}

export function skill(capability: string, invoke: (context: StepContext, input: Json) => Promise<Json>, more: Partial<Skill> = {}): Skill {
  return defineSkill({ capability, summary: 'Of a test', input: Type.Any(), output: Type.Any(), ...more, invoke } as never)
}

export async function controlled(skills: readonly Skill[]): Promise<Controlled> {
  const state = await memoryState()
  const clock = { now: Date.UTC(2026, 10, 23, 12) }
  let count = 0
  return {
    state,
    clock,
    driver: (tools = {}) =>
      new Driver({
        state,
        skills: new Map(skills.map((each) => [each.capability, each])),
        calendars: new Map(),
        holder: `p${++count}`,
        leaseMs: LEASE_MS,
        limits: { maxSteps: 1000, maxEffects: 1000 },
        now: () => clock.now,
        random: Math.random,
        soon: async () => {},
        sleep: async (ms) => void (clock.now += ms),
        every: () => () => {},
        performed: () => {},
        ...tools,
      }),
    async run(driver, capability, more = {}) {
      const { run, epoch } = await driver.admit({ capability, input: null, actor: 'ann', ...more })
      return { run, status: await driver.drive(run, epoch) }
    },
    async records(run, kind) {
      const all = (await recordsOf(state, run)).map(({ raw }) => decode(raw))
      return kind === undefined ? all : all.filter((record) => record.kind === kind)
    },
  }
}
