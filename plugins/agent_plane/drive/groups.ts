/** Groups of effects that settle together: what was done in one that is not committed is undone, the newest first. */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { EffectGroup, Json } from 'svcdb/agents'

/** Set in what undoes. */
const undoing = new AsyncLocalStorage<true>()

export function isUndoing(): boolean {
  return undoing.getStore() === true
}

/** What a group asks of its step. */
interface Step {
  mark(kind: 'GroupOpened' | 'GroupSettled', payload: Record<string, Json>): Promise<void>
  setAside(reason: string): Promise<never>
}

/** As `StepContext.group`. */
export async function grouped<V>(step: Step, name: string, resources: readonly string[], act: (group: EffectGroup) => Promise<V>): Promise<V> {
  await step.mark('GroupOpened', { group: name, resources: [...resources] })
  const undos: (() => Promise<unknown>)[] = []
  const settle = (outcome: string) => step.mark('GroupSettled', { group: name, outcome })
  try {
    const given = await act({ undo: (one) => void undos.push(one) })
    await settle('committed')
    return given
  } catch (error) {
    for (const undo of undos.reverse()) {
      try {
        await undoing.run(true, undo)
      } catch (failure) {
        await settle('quarantined')
        return step.setAside(`group "${name}" could not be undone: ${(failure as Error).message}`)
      }
    }
    await settle('aborted')
    throw error
  }
}
