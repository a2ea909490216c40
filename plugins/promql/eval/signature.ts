/** The labels that two sides of an operator match on, and how a match group reads in messages. */
import type { VectorMatching } from '../ast.ts'
import { quote } from '../functions/format.ts'
import { type LabelSets, type Labels, METADATA } from '../labels.ts'
import { labelNames } from './series-sets.ts'

/** Without a clause of its own an operator matches on all labels but those of the metric. */
export function matchNames(matching: VectorMatching | undefined, sides: readonly LabelSets[]): string[] {
  if (matching?.on) return [...new Set(matching.labels)]
  const names = new Set(sides.flatMap((side) => labelNames(side)))
  for (const name of METADATA) names.delete(name)
  for (const name of matching?.labels ?? []) names.delete(name)
  return [...names]
}

/** The labels a series matches by. */
export function matchLabels(labels: Labels, { on, labels: names }: VectorMatching): Labels {
  return on ? labels.keep(new Set(names)) : labels.drop(new Set([...METADATA, ...names]))
}

export function labelText({ pairs }: Labels): string {
  const texts: string[] = []
  for (let i = 0; i < pairs.length; i += 2) texts.push(`${/^[a-zA-Z_][a-zA-Z0-9_]*$/.test(pairs[i]) ? pairs[i] : quote(pairs[i])}=${quote(pairs[i + 1])}`)
  return `{${texts.join(', ')}}`
}
