# Sourced in an empty folder: makes the files that cases.txt names.
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' it is ann '##a' "'" s eco '##logie' >vocab.txt
mkdir fashion
images() {  # images NAME COUNT OCTAL
  { printf "\\000\\000\\010\\003\\000\\000\\000\\$3\\000\\000\\000\\034\\000\\000\\000\\034"; seq 100000 | head -c $(($2 * 784)); } >"fashion/$1-images-idx3-ubyte"
  { printf "\\000\\000\\010\\001\\000\\000\\000\\$3"; seq 100000 | tr 0-9 '\000-\011' | tr -d '\n' | head -c "$2"; } >"fashion/$1-labels-idx1-ubyte"
}
images train 40 050
images t10k 8 010
