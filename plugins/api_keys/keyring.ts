/** All keys of a node, by name and by what a token is looked up by. */
import { hash, randomBytes } from 'node:crypto'
import { type ApiKey, isHomeless } from './key.ts'

export class Keyring {
  private readonly byName = new Map<string, ApiKey>()
  private readonly byLookup = new Map<string, Set<ApiKey>>()
  private readonly everywhere = new Set<ApiKey>()
  private readonly byDigest = new Map<string, ApiKey>()
  private readonly digests = new Map<ApiKey, string>()
  /** So that nobody can choose a text for its digest, nor find a text by one. */
  private readonly salt = randomBytes(32).toString('latin1')

  digestOf(token: string): string {
    return hash('sha256', this.salt + token, 'base64')
  }

  /** @param digest of a key that has no hash: it is known by this alone. @throws Error when the name is in use. */
  add(key: ApiKey, digest?: string): void {
    const known = this.byName.get(key.name)
    if (known !== undefined)
      throw new Error(
        `cannot use two keys with the name ${JSON.stringify(key.name)}, of the ${known.source} and the ${key.source}; rename or remove one of them`,
      )
    this.byName.set(key.name, key)
    if (digest !== undefined) {
      this.byDigest.set(digest, key)
      this.digests.set(key, digest)
    }
    if (key.phc === undefined || !key.enabled) return
    if (key.lookup === undefined) return void this.everywhere.add(key)
    const same = this.byLookup.get(key.lookup)
    if (same === undefined) this.byLookup.set(key.lookup, new Set([key]))
    else same.add(key)
  }

  remove(key: ApiKey): void {
    if (!this.isCurrent(key)) return
    key.gone = true
    this.byName.delete(key.name)
    this.everywhere.delete(key)
    const digest = this.digests.get(key)
    if (digest !== undefined) this.byDigest.delete(digest)
    this.digests.delete(key)
    if (key.lookup === undefined) return
    const same = this.byLookup.get(key.lookup)
    same?.delete(key)
    if (same?.size === 0) this.byLookup.delete(key.lookup)
  }

  get(name: string): ApiKey | undefined {
    return this.byName.get(name)
  }

  /** Whether the key still stands, as it is. */
  isCurrent(key: ApiKey): boolean {
    return this.byName.get(key.name) === key
  }

  known(digest: string): ApiKey | undefined {
    return this.byDigest.get(digest)
  }

  /** Keys that a token may be. */
  candidates(lookup: string): { indexed: readonly ApiKey[]; others: readonly ApiKey[] } {
    return { indexed: [...(this.byLookup.get(lookup) ?? [])], others: [...this.everywhere] }
  }

  get size(): number {
    return this.byName.size
  }

  get unindexed(): number {
    return this.everywhere.size
  }

  values(): ApiKey[] {
    return [...this.byName.values()]
  }

  /** @throws Error naming keys without namespaces, which under multi-tenancy would be for all or none. */
  refuseHomeless(): void {
    const names = this.values()
      .filter(isHomeless)
      .map(({ name }) => JSON.stringify(name))
    if (names.length > 0) throw new Error(homelessText(names))
  }
}

export function homelessText(names: readonly string[]): string {
  return `cannot use ${names.length === 1 ? 'key' : 'keys'} ${names.join(', ')} with server.multi_tenancy: no namespaces are given; name those that each may use, or give an admin of all of them namespaces = ["*"]`
}
