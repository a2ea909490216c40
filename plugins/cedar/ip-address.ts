/** Addresses as the policies' `ipaddr` has them. */
import { isIP } from 'node:net'

/**
 * An IPv4 client of a socket that takes both kinds counts as IPv4, so that one range in a policy is enough; zones are left out.
 * @returns undefined for what is no address, such as the path of a socket.
 */
export function ipOf(address: string | undefined): string | undefined {
  const bare = address?.split('%', 1)[0] ?? ''
  const version = isIP(bare)
  if (version === 0) return undefined
  if (version === 4) return bare
  const canonical = new URL(`http://[${bare}]`).hostname.slice(1, -1)
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical)
  if (mapped === null) return canonical
  const [high, low] = [Number.parseInt(mapped[1], 16), Number.parseInt(mapped[2], 16)]
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`
}
