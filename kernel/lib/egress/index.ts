/** Who calls other hosts by names that others have written: which addresses are public, names resolved without threads, connections to checked addresses. */
export { addressProblem, isInternalName, literalAddress } from './address.ts'
export { AddressGuard, Forbidden } from './address-guard.ts'
export { publicResolver, type Resolve, systemResolver } from './resolver.ts'
export { sendGuarded } from './send.ts'
