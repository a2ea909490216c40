/** The surroundings of rules about what goes: a clock that moves, and something that happens between two steps. */
import { setTimeout } from 'node:timers/promises'
import type { StorageEngine } from 'svcdb'
import type { Test } from 'tap'
import type { EngineUnderTest } from './context.ts'
import { lines } from './points.ts'

export interface Life {
  /** The engine as it is now: another one after a restart. */
  readonly engine: StorageEngine
  /** Milliseconds since the Unix epoch. */
  clock: { ms: number }
  /** Nothing, a flush, or a restart: the rule must hold whatever lies where. */
  between(): Promise<void>
  /** Lets what time has brought about take effect. */
  settle(): Promise<void>
}

export type LifeRule = [name: string, body: (t: Test, life: Life) => Promise<void>]

const PATIENCE_MS = 15_000
export const EVENTS = ['nothing', 'flush', 'restart'] as const
export type Event = (typeof EVENTS)[number]

export function lifeOf(subject: EngineUnderTest, clock: { ms: number }, event: Event): Life {
  return {
    get engine() {
      return subject.engine
    },
    clock,
    settle: async () => subject.settle?.(),
    async between() {
      if (event === 'flush') await subject.engine.flush()
      if (event === 'restart') await subject.reopen?.()
    },
  }
}

/** What a scan answers, or the code it fails with. */
export async function seen(life: Life, measurement: string, namespace = 'default'): Promise<string[] | string> {
  await life.settle()
  try {
    return await lines(life.engine, { namespace, measurement })
  } catch (error) {
    const { code } = error as { code?: string }
    if (code === undefined) throw error
    return code
  }
}

/** Engines remove what is too old when their maintenance comes by. */
export async function becomes(t: Test, life: Life, measurement: string, expected: string[], message = 'rows'): Promise<void> {
  const last = Date.now() + PATIENCE_MS
  while (JSON.stringify(await seen(life, measurement)) !== JSON.stringify(expected) && Date.now() < last) await setTimeout(50)
  t.same(await seen(life, measurement), expected, message)
}
