/** Where connections may go. A name is resolved once for each connection; the addresses that were checked are the ones that are connected to. */
import { isIP, type LookupFunction } from 'node:net'
import { addressProblem } from './address.ts'
import type { Resolve } from './resolver.ts'

/** @public The address is not allowed: nothing was sent there. */
export class Forbidden extends Error {}

/** @public Lets connections go to public addresses only, unless private ones are allowed. */
export class AddressGuard {
  readonly allowPrivate: boolean
  protected readonly resolve: Resolve

  constructor(allowPrivate: boolean, resolve: Resolve) {
    this.allowPrivate = allowPrivate
    this.resolve = resolve
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
