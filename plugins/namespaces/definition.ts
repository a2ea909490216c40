/** A namespace as it is kept in the state store, and the text of the file that kept all of them before (docs/formats/namespaces.md). Pure. */
import { type NamespaceQuota, namespaceProblem } from 'svcdb'
import { quotaMembers } from './quota.ts'

export const DEFAULT_NAMESPACE = 'default'
/** Of the file. */
const VERSION = 1
export const MAX_DESCRIPTION = 1024
export const MAX_OWNER = 256

export interface Definition {
  name: string
  description: string
  owner: string
  /** It came into being by a write. */
  auto: boolean
  /** Milliseconds since the Unix epoch. */
  createdAt: number
  /** What was set for it alone. */
  quota: Partial<NamespaceQuota>
  /** Its data is being removed, and then itself. */
  deleting: boolean
}

type Stored = Record<string, unknown>
const MEMBERS = new Set(['name', 'description', 'owner', 'auto', 'created_at', 'quota', 'deleting'])

/** What the state store keeps under the namespace's name. */
export function storedOf({ name, description, owner, auto, createdAt, quota, deleting }: Definition): Stored {
  return { name, description, owner, ...(auto ? { auto } : {}), created_at: createdAt, quota, ...(deleting ? { deleting } : {}) }
}

/** The file of older versions. @throws Error saying what is wrong with the text. */
export function decode(text: string): Definition[] {
  let whole: Stored
  try {
    whole = JSON.parse(text) as Stored
  } catch (error) {
    throw new Error(`it is not JSON: ${(error as Error).message}`)
  }
  if (!isObject(whole)) throw new Error('it is not an object')
  if (whole.version !== VERSION) throw new Error(`its version is ${JSON.stringify(whole.version)?.slice(0, 20)}; this server reads version ${VERSION}`)
  if (!Array.isArray(whole.namespaces)) throw new Error('"namespaces" is not a list')
  const seen = new Set<string>()
  return whole.namespaces.map((stored, i) => {
    try {
      const definition = definitionOf(stored)
      if (seen.has(definition.name)) throw new Error(`"${definition.name}" occurs twice`)
      seen.add(definition.name)
      return definition
    } catch (error) {
      throw new Error(`namespaces[${i}]: ${(error as Error).message}`)
    }
  })
}

/** @throws Error saying what is wrong with it. */
export function definitionOf(stored: unknown): Definition {
  if (!isObject(stored)) throw new Error('it is not an object')
  const unknown = Object.keys(stored).find((member) => !MEMBERS.has(member))
  // Of a later version, or mistyped: to go on would be to lose it.
  if (unknown !== undefined) throw new Error(`"${unknown.slice(0, 64)}" is not a known member`)
  const { name, description = '', owner, auto = false, created_at: createdAt, quota = {}, deleting = false } = stored
  if (typeof name !== 'string') throw new Error('"name" is not a string')
  const problem = namespaceProblem(name)
  if (problem !== undefined) throw new Error(problem)
  if (typeof description !== 'string' || typeof owner !== 'string') throw new Error('"description" or "owner" is not a string')
  if (typeof createdAt !== 'number' || !Number.isFinite(createdAt)) throw new Error('"created_at" is not a number')
  if (typeof auto !== 'boolean' || typeof deleting !== 'boolean') throw new Error('"auto" or "deleting" is not a boolean')
  if (!isObject(quota)) throw new Error('"quota" is not an object')
  return { name, description, owner, auto, createdAt, quota: quotaMembers(quota), deleting }
}

function isObject(value: unknown): value is Stored {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
