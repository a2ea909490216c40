/**
 * The part of the Reflect Metadata API that @peculiar/x509's container of services asks for when it is loaded: metadata of a class, by key.
 * Nothing is installed where the API is there already.
 */
interface MetadataApi {
  getMetadata?(key: unknown, target: object): unknown
  getOwnMetadata?(key: unknown, target: object): unknown
  defineMetadata?(key: unknown, value: unknown, target: object): void
}

export function installReflectMetadata(): void {
  const api = Reflect as MetadataApi
  if (api.getMetadata !== undefined) return
  const kept = new WeakMap<object, Map<unknown, unknown>>()
  const own = (key: unknown, target: object) => kept.get(target)?.get(key)
  api.getOwnMetadata = own
  api.getMetadata = (key, target) => {
    for (let at: object | null = target; at !== null; at = Object.getPrototypeOf(at)) if (kept.get(at)?.has(key)) return own(key, at)
    return undefined
  }
  api.defineMetadata = (key, value, target) => {
    const known = kept.get(target) ?? new Map<unknown, unknown>()
    kept.set(target, known.set(key, value))
  }
}
