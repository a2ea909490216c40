/**
 * Who a request says it is for, and from which site. A node that asks for no credentials has nothing else to tell a person's program from a web page
 * that the person happens to look at: a page sends requests to any address (its Origin is then foreign), and reaches a private one under a name of
 * its own by having that name resolve to it (its Host is then foreign). Where the credential is the certificate of the connection, the browser shows it
 * for whatever page sends the request, and Origin is all that tells them apart; for a foreign Host it finds a certificate of the server that does not hold.
 */
import { isIP } from 'node:net'
import { SvcError } from '../errors/index.ts'
import { isLoopback, parseAddress } from './addresses.ts'

/** What a request says of where it goes and where it comes from: the headers Host and Origin. */
export interface Arrival {
  /** Host, or :authority; undefined where HTTP/1.0 leaves it out: no browser does. */
  host: string | undefined
  origin: string | undefined
}

/** What an open node answers to, by the names of the [server] section. */
export interface KnownHosts {
  http_addr: string
  public_url?: string | undefined
  /** Names without a port; "*" = any. */
  allowed_hosts: readonly string[]
  /** Origins, `scheme://host[:port]`; "*" = any. */
  cors_allowed_origins: readonly string[]
}

const SHOWN = 128
/** A name or an address as the authority of a URL has it, with or without a port. */
const AUTHORITY = /^(\[[0-9a-f:.]+\]|[^:/?#@\s[\]]*)(?::\d*)?$/i

/** Refuses requests of foreign pages and for foreign names. */
export class HostGuard {
  private readonly names: ReadonlySet<string>
  private readonly origins: ReadonlySet<string>
  private readonly publicOrigin: string | undefined
  /** The one that was let in last: mostly the next is the same. */
  private known: string | undefined

  constructor(server: KnownHosts) {
    const { public_url: url } = server
    const configured = [...server.allowed_hosts, parseAddress(server.http_addr).host, ...(url === undefined ? [] : [new URL(url).hostname])]
    this.names = new Set(configured.map(canonical))
    this.origins = new Set(server.cors_allowed_origins)
    this.publicOrigin = url === undefined ? undefined : new URL(url).origin
  }

  /** @throws FORBIDDEN naming the key that would let it in. */
  check({ host, origin }: Arrival): void {
    if (host !== undefined && host !== this.known) {
      if (this.knows(host)) this.known = host
      else
        throw new SvcError(
          'FORBIDDEN',
          `cannot answer for host ${quoted(host)}: this server asks for no credentials, so it answers to addresses, localhost and the names it knows; add the name to server.allowed_hosts`,
        )
    }
    this.requireWelcome({ host, origin }, 'this server asks for no credentials')
  }

  /** For a connection that has shown a client certificate. @throws FORBIDDEN as `check`. */
  checkOrigin(arrival: Arrival): void {
    this.requireWelcome(arrival, 'a browser shows its client certificate whichever page asks')
  }

  private requireWelcome({ host, origin }: Arrival, why: string): void {
    if (origin === undefined || this.welcomes(origin, host)) return
    throw new SvcError(
      'FORBIDDEN',
      `cannot take a request from origin ${quoted(origin)}: ${why}, so none are taken from pages of other sites; add the origin to server.cors_allowed_origins`,
    )
  }

  private knows(host: string): boolean {
    if (this.names.has('*')) return true
    const name = AUTHORITY.exec(host)?.[1]
    if (name === undefined) return false
    const plain = canonical(name)
    return isIP(plain) !== 0 || plain === 'localhost' || plain.endsWith('.localhost') || this.names.has(plain)
  }

  private welcomes(origin: string, host: string | undefined): boolean {
    if (this.origins.has('*') || this.origins.has(origin) || origin === this.publicOrigin) return true
    if (host === undefined || !URL.canParse(origin)) return false
    const from = new URL(origin)
    // The same but for a default port that one of them leaves out.
    const to = `${from.protocol}//${host}`
    return from.protocol.startsWith('http') && URL.canParse(to) && new URL(to).host === from.host
  }
}

/** Names are compared without case and without the dot of the root. */
function canonical(name: string): string {
  return name
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '')
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, SHOWN))
}

/** What is wrong with where an open node listens, or undefined. @param listeners by key and address. */
export function openProblem(listeners: readonly { key: string; address: string }[]): string | undefined {
  const exposed = listeners.filter(({ address }) => !isLoopback(parseAddress(address).host))
  if (exposed.length === 0) return undefined
  const shown = exposed.map(({ key, address }) => `${key} "${address}"`).join(' and ')
  return `cannot listen on ${shown}: no selected plugin authenticates, so whoever reaches the server could read, write and administer it; listen on 127.0.0.1, select a plugin such as api_keys, jwt or mtls, or set server.allow_open = true`
}
