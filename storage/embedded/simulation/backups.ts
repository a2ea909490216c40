/** Backups made under load, and what must be in them: restored elsewhere and opened, they are compared with what was there when they were made. */
import { copyProblem, doom, type Operation, type State } from './model.ts'
import type { Scanned } from './scan.ts'

export interface Backup {
  directory: string
  /** Events before it. */
  begun: number
  states: State[]
  /** Values that each key of the state store may have. */
  values: Map<string, Set<number | undefined>>
}

/** @returns what is wrong with what was read of a restored backup. */
export function backupProblem(
  { states, values }: Backup,
  observed: readonly Scanned[],
  found: readonly { key: string; value: number }[],
  cutoff: Operation['cutoff'],
): string | undefined {
  const problem = copyProblem(
    states.map((state) => doom(state, cutoff)),
    observed,
  )
  if (problem !== undefined) return problem
  const stored = new Map(found.map(({ key, value }) => [key, value]))
  for (const [key, allowed] of values)
    if (!allowed.has(stored.get(key))) return `key ${key} of the state store is ${stored.get(key)}, not one of ${[...allowed].join(' ')}`
  for (const key of stored.keys()) if (!values.has(key)) return `key ${key} of the state store never was`
  return undefined
}
