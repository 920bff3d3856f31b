// BERT's words and parts of words (WordPiece, without case), as far as a search box needs them.

// Punctuation, symbols of ASCII and Chinese characters stand alone; what is left between spaces is a word.
const OWN = "\\p{P}$+<=>^`|~\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff";
const ALONE = new RegExp(`[${OWN}]|[^${OWN}\\s]+`, "gu");

/** @param {{words: string[], length: number}} spec @returns {(text: string) => {tokens: BigInt64Array, mask: BigInt64Array}} */
export function tokenizer({ words, length }) {
  const number = new Map(words.map((word, i) => [word, i]));
  const [pad, unknown, start, end] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"].map((w) => number.get(w));

  /** A word in the longest parts that there are. */
  function parts(word) {
    const found = [];
    for (let at = 0; at < word.length; ) {
      let to = word.length, piece;
      for (; to > at; to--) {
        piece = number.get((at ? "##" : "") + word.slice(at, to));
        if (piece !== undefined) break;
      }
      if (to === at) return [unknown];
      found.push(piece);
      at = to;
    }
    return found;
  }

  return (text) => {
    const plain = text.toLowerCase().normalize("NFD").replace(/\p{Mn}/gu, "");
    const pieces = plain.match(ALONE) ?? [];
    const own = pieces.flatMap((word) => (word.length > 100 ? [unknown] : parts(word))).slice(0, length - 2);
    const all = [start, ...own, end];
    return {
      tokens: BigInt64Array.from({ length }, (_, i) => BigInt(all[i] ?? pad)),
      mask: BigInt64Array.from({ length }, (_, i) => BigInt(+(i < all.length))),
    };
  };
}
