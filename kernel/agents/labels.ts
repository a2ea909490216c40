/** Where data came from, and what that means for it. */

/** Whether it may be acted on without a further look: what comes from outside is `untrusted`. */
export type Trust = 'trusted' | 'untrusted'
/** From what anybody may read to what hardly anybody may. */
export type Sensitivity = 'public' | 'internal' | 'confidential' | 'secret'

/** Where a value came from, how far it is to be trusted, and who may see it. */
export interface Label {
  /** Such as `actor:ann`, `effect:http.get`, `event:shop`, `person:bob`; sorted, each once. */
  provenance: string[]
  trust: Trust
  sensitivity: Sensitivity
  data_subjects?: string[]
}

/** A text, and where it came from. */
export interface Prose {
  value: string
  label: Label
}

/** From the least to the most sensitive. */
export const SENSITIVITIES: readonly Sensitivity[] = ['public', 'internal', 'confidential', 'secret']

/** Of what is in the code itself. */
export const OWN: Label = { provenance: [], trust: 'trusted', sensitivity: 'public' }

/** A text of the skill itself, of which nothing is from outside. */
export function ownProse(value: string): Prose {
  return { value, label: OWN }
}

/** Of what was made of all of these: untrusted if one of them is, and as sensitive as the most sensitive one. */
export function joined(...labels: readonly Label[]): Label {
  const all = (member: 'provenance' | 'data_subjects') => [...new Set(labels.flatMap((label) => label[member] ?? []))].sort()
  const subjects = all('data_subjects')
  return {
    provenance: all('provenance'),
    trust: labels.some(({ trust }) => trust === 'untrusted') ? 'untrusted' : 'trusted',
    sensitivity: SENSITIVITIES[Math.max(0, ...labels.map(({ sensitivity }) => SENSITIVITIES.indexOf(sensitivity)))],
    ...(subjects.length === 0 ? {} : { data_subjects: subjects }),
  }
}
