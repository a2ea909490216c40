/**
 * Values by key, in the order of their use. The one used longest ago is at hand at once: a Map that loses its first keys again and again steps over the places of all that have
 * gone to find the next one.
 */

interface Node<V> {
  key: string
  value: V
  before: Node<V> | undefined
  after: Node<V> | undefined
}

export class UseOrder<V> {
  private readonly nodes = new Map<string, Node<V>>()
  /** Used longest ago. */
  private first: Node<V> | undefined
  private last: Node<V> | undefined

  get size(): number {
    return this.nodes.size
  }

  get oldest(): Readonly<Pick<Node<V>, 'key' | 'value'>> | undefined {
    return this.first
  }

  has(key: string): boolean {
    return this.nodes.has(key)
  }

  /** No use. */
  get(key: string): V | undefined {
    return this.nodes.get(key)?.value
  }

  /** It is the one used last from now on. */
  use(key: string): V | undefined {
    const node = this.nodes.get(key)
    if (node === undefined || node === this.last) return node?.value
    this.unlink(node)
    this.append(node)
    return node.value
  }

  /** A use, too. */
  set(key: string, value: V): void {
    this.delete(key)
    const node: Node<V> = { key, value, before: undefined, after: undefined }
    this.nodes.set(key, node)
    this.append(node)
  }

  delete(key: string): V | undefined {
    const node = this.nodes.get(key)
    if (node === undefined) return undefined
    this.nodes.delete(key)
    this.unlink(node)
    return node.value
  }

  /** The one used longest ago first; nothing may be used meanwhile. */
  *values(): Generator<V> {
    for (let node = this.first; node !== undefined; node = node.after) yield node.value
  }

  private append(node: Node<V>): void {
    node.before = this.last
    node.after = undefined
    if (this.last === undefined) this.first = node
    else this.last.after = node
    this.last = node
  }

  private unlink({ before, after }: Node<V>): void {
    if (before === undefined) this.first = after
    else before.after = after
    if (after === undefined) this.last = before
    else after.before = before
  }
}
