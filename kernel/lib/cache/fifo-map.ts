/** Keys that are deleted before the kept iterator is given up, at least. */
const KEPT_FOR = 1024

/**
 * A Map that names the oldest of its keys, the one that was added first, at a cost that does not grow with the entries: an iterator that begins anew each time passes
 * over the places of all that were deleted before.
 *
 * The iterator is kept, but not for long where it is not moved: V8 keeps all tables that a Map has had since.
 */
export class FifoMap<K, V> extends Map<K, V> {
  private order: Iterator<K> | undefined
  private front: K | undefined
  /** Whether `front` is the oldest; `order` stands behind it then. */
  private known = false
  /** Keys deleted since `order` was last moved. */
  private deleted = 0

  /** undefined when there is none. A key that is deleted and set again is the newest; one that is only set again stays where it is. */
  oldest(): K | undefined {
    if (this.known || this.size === 0) return this.front
    this.order ??= this.keys()
    let next = this.order.next()
    if (next.done) {
      this.order = this.keys()
      next = this.order.next()
    }
    this.front = next.value
    this.known = true
    this.deleted = 0
    return this.front
  }

  override delete(key: K): boolean {
    if (!super.delete(key)) return false
    if (key === this.front) this.forget()
    if (this.order !== undefined && ++this.deleted > Math.max(KEPT_FOR, this.size)) this.restart()
    return true
  }

  override clear(): void {
    super.clear()
    this.restart()
  }

  private forget(): void {
    this.front = undefined
    this.known = false
  }

  private restart(): void {
    this.forget()
    this.order = undefined
    this.deleted = 0
  }
}
