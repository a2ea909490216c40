/** Attributes to the tags of a series. Pure. */
import { prometheusLabel } from './names.ts'

/** Attributes by key as they were sent; of two with one key the later counts. */
export type Attributes = Map<string, string>

/**
 * @param prometheus keys become labels of Prometheus. Where several become one, their values are joined by ";", in the order of the keys.
 * @returns tags by their names.
 */
export function tagsOf(attributes: Attributes, prometheus: boolean): Attributes {
  if (!prometheus) return attributes
  const tags: Attributes = new Map()
  const keys = [...attributes.keys()].sort((a, b) => (a < b ? -1 : 1))
  for (const key of keys) {
    const label = prometheusLabel(key)
    const value = attributes.get(key) as string
    const known = tags.get(label)
    tags.set(label, known === undefined ? value : `${known};${value}`)
  }
  return tags
}

const SERVICE_NAME = 'service.name'
const SERVICE_NAMESPACE = 'service.namespace'
const SERVICE_INSTANCE = 'service.instance.id'

/** As `tagsOf`; in the form of Prometheus what identifies the service becomes `job` and `instance`. */
export function resourceTags(attributes: Attributes, prometheus: boolean): Attributes {
  if (!prometheus) return attributes
  const name = attributes.get(SERVICE_NAME)
  const namespace = attributes.get(SERVICE_NAMESPACE)
  const instance = attributes.get(SERVICE_INSTANCE)
  // The namespace alone names no job: it stays a label.
  if (name !== undefined) for (const key of [SERVICE_NAME, SERVICE_NAMESPACE]) attributes.delete(key)
  attributes.delete(SERVICE_INSTANCE)
  const tags = tagsOf(attributes, prometheus)
  if (name !== undefined) tags.set('job', namespace === undefined || namespace === '' ? name : `${namespace}/${name}`)
  if (instance !== undefined) tags.set('instance', instance)
  return tags
}

/** Key, value, key, value ...: what stands later counts. */
export function joinedTags(...sets: readonly Attributes[]): string[] {
  const all = new Map<string, string>()
  for (const set of sets) for (const [key, value] of set) all.set(key, value)
  const tags: string[] = []
  for (const [key, value] of all) tags.push(key, value)
  return tags
}
