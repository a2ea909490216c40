/** Where deliveries may go. A name is resolved once for each connection; the addresses that were checked are the ones that are connected to. */
import { isIP, type LookupFunction } from 'node:net'
import { addressProblem, literalAddress } from './address.ts'
import type { Resolve } from './resolver.ts'
import { originOf, parseTarget, refused } from './target.ts'

/** How long a definition waits for a name to be resolved. */
const CHECK_MS = 3000

/** The address is not allowed: nothing was sent there. */
export class Forbidden extends Error {}

export class Guard {
  readonly allowPrivate: boolean
  private readonly resolve: Resolve

  constructor(allowPrivate: boolean, resolve: Resolve) {
    this.allowPrivate = allowPrivate
    this.resolve = resolve
  }

  /** When an endpoint is defined: what cannot be resolved now may be later. @throws BAD_REQUEST. */
  async check(text: string): Promise<URL> {
    const url = parseTarget(text, this.allowPrivate)
    if (this.allowPrivate || literalAddress(url.hostname) !== undefined) return url
    const found = await Promise.race([
      this.resolve(url.hostname).catch(() => []),
      new Promise<string[]>((resolve) => setTimeout(resolve, CHECK_MS, []).unref()),
    ])
    const problem = found.map(addressProblem).find((each) => each !== undefined)
    if (problem !== undefined) throw refused(originOf(url), `its name resolves to ${problem}`, 'use a public host, or set webhooks.allow_private_targets')
    return url
  }

  /** Before each connection, for an URL that was checked when it was defined, perhaps under another setting. @throws Forbidden. */
  parse(text: string): URL {
    try {
      return parseTarget(text, this.allowPrivate)
    } catch (error) {
      throw new Forbidden((error as Error).message)
    }
  }

  /** @throws Forbidden for an address that is not allowed. */
  requireAllowed(address: string): void {
    const problem = this.allowPrivate ? undefined : addressProblem(address)
    if (problem !== undefined) throw new Forbidden(`its host resolves to ${problem}`)
  }

  /** For a connection: gives checked addresses, all or none. */
  readonly lookup: LookupFunction = (host, options, done) => {
    this.allowed(host).then(
      (addresses) => {
        const found = addresses.map((address) => ({ address, family: isIP(address) }))
        if (options.all) done(null, found)
        else done(null, found[0].address, found[0].family)
      },
      (error) => done(error, '', 0),
    )
  }

  private async allowed(host: string): Promise<string[]> {
    const addresses = (await this.resolve(host)).filter((address) => isIP(address) !== 0)
    if (addresses.length === 0) throw new Error('its name has no address')
    for (const address of addresses) this.requireAllowed(address)
    return addresses
  }
}
