/** Who is known by a certificate. Pure. */
import { type Identity, isForAll, namespaceListProblems } from 'svcdb'
import type { Certificate } from './certificate.ts'
import type { ClientConfig, IdentityKind, MtlsConfig } from './config.ts'

const FINGERPRINT = /^[\da-f]{64}$/
const SECTION = 'auth.mtls.clients'

interface Client {
  identity: Pick<Identity, 'principal' | 'roles' | 'namespaces' | 'admin'>
  fingerprints: ReadonlySet<string>
}

type Found =
  | { result: 'known'; identity: Client['identity'] }
  /** Nobody of the list, and nobody is let in for that. */
  | { result: 'unknown' }
  /** Names of several clients. */
  | { result: 'ambiguous'; clients: readonly string[] }
  /** Of a client of the list, and none of its own certificates. */
  | { result: 'not_pinned'; client: string }

export class Clients {
  private readonly clients = new Map<string, Client>()
  private readonly allowUnknown: boolean

  /** @throws Error naming what is wrong with the list, all at once. */
  constructor({ identity, unknown, clients }: MtlsConfig, multiTenancy: boolean) {
    this.allowUnknown = unknown === 'allow'
    const problems: string[] = []
    for (const client of clients) this.add(client, identity, problems)
    if (multiTenancy) problems.push(...tenancyProblems(clients, this.allowUnknown))
    if (problems.length > 0) throw new Error(problems.join('; '))
  }

  get size(): number {
    return this.clients.size
  }

  find({ names, kind, fingerprint }: Certificate): Found {
    const found = new Set(names.flatMap((name) => this.clients.get(keyOf(name, kind)) ?? []))
    if (found.size > 1) return { result: 'ambiguous', clients: [...found].map((client) => client.identity.principal) }
    const [client] = found
    if (client === undefined) {
      if (!this.allowUnknown) return { result: 'unknown' }
      return { result: 'known', identity: { principal: keyOf(names[0], kind), roles: [], namespaces: [], admin: false } }
    }
    if (client.fingerprints.size > 0 && !client.fingerprints.has(fingerprint)) return { result: 'not_pinned', client: client.identity.principal }
    return { result: 'known', identity: client.identity }
  }

  private add({ name, namespaces, roles, admin, fingerprints_sha256 }: ClientConfig, kind: IdentityKind, problems: string[]): void {
    const key = keyOf(name, kind)
    const cannot = `cannot use "${SECTION}" "${name}"`
    if (this.clients.has(key)) problems.push(`${cannot}: the name is there twice; remove one`)
    if (name.includes('*')) problems.push(`${cannot}: a name stands for itself, and "*" for no others; list each client`)
    for (const problem of namespaceListProblems(namespaces)) problems.push(`${cannot}: ${problem}`)
    const fingerprints = fingerprints_sha256.map((text) => text.replaceAll(':', '').toLowerCase())
    if (!fingerprints.every((text) => FINGERPRINT.test(text)))
      problems.push(`${cannot}: a SHA-256 fingerprint is 64 hexadecimal digits, with or without colons; openssl x509 -noout -fingerprint -sha256 prints it`)
    const identity = Object.freeze({
      principal: name,
      roles: Object.freeze([...roles]),
      namespaces: Object.freeze(isForAll(namespaces) ? [] : [...namespaces]),
      admin,
    })
    this.clients.set(key, { identity, fingerprints: new Set(fingerprints) })
  }
}

/** DNS names are case-insensitive (RFC 4343), all others are compared as they are. */
function keyOf(name: string, kind: IdentityKind): string {
  return kind === 'san_dns' ? name.toLowerCase() : name
}

function tenancyProblems(clients: readonly ClientConfig[], allowUnknown: boolean): string[] {
  const problems: string[] = []
  const stranded = clients.filter(({ admin, namespaces }) => namespaces.length === 0 || (!admin && isForAll(namespaces))).map(({ name }) => `"${name}"`)
  if (stranded.length > 0)
    problems.push(
      `cannot use "${SECTION}" ${stranded.join(', ')} with server.multi_tenancy: no namespaces are given; name those that each may use, or give an admin of all of them namespaces = ["*"]`,
    )
  if (allowUnknown)
    problems.push('cannot use "auth.mtls.unknown" "allow" with server.multi_tenancy: whoever is not in clients has no namespaces; list them there')
  return problems
}
