package assay

// #include <assay/assay_data.h>
// #include <stdlib.h>
import "C"

import (
	"encoding/json"
	"fmt"
	"unsafe"
)

// Vocabulary is a WordPiece vocabulary with its tokenizer. Goroutines may share it.
type Vocabulary struct {
	*handle[C.assay_text]
}

func newVocabularyHandle(t *C.assay_text) *Vocabulary {
	return &Vocabulary{newHandle("vocabulary", t, func(t *C.assay_text) { C.assay_text_free(t) }, nil)}
}

// OpenVocabulary reads a vocabulary file, the folder of a data set of text, or a checkpoint that
// carries one.
func OpenVocabulary(path string, config any) (*Vocabulary, error) {
	text, err := configText(config)
	if err != nil {
		return nil, err
	}
	var out *C.assay_text
	var e *C.assay_error
	status := C.assay_text_create(cText(path), cText(text), &out, &e)
	if err := failure(status, e); err != nil {
		return nil, err
	}
	return newVocabularyHandle(out), nil
}

// ParseVocabulary takes the contents of a vocabulary file.
func ParseVocabulary(contents string, config any) (*Vocabulary, error) {
	text, err := configText(config)
	if err != nil {
		return nil, err
	}
	var out *C.assay_text
	var e *C.assay_error
	status := C.assay_text_parse(cText(contents), cText(text), &out, &e)
	if err := failure(status, e); err != nil {
		return nil, err
	}
	return newVocabularyHandle(out), nil
}

// Contents is the contents of the vocabulary's file.
func (v *Vocabulary) Contents() (string, error) {
	var contents string
	err := v.call(func(t *C.assay_text, e **C.assay_error) C.assay_status {
		var out C.assay_str
		status := C.assay_text_vocabulary(t, &out, e)
		contents = goText(out)
		return status
	})
	return contents, err
}

// Attach makes the trainer's checkpoints carry the vocabulary.
func (v *Vocabulary) Attach(trainer *Trainer) error {
	object, leave, err := trainer.enter() // it is metadata
	if err != nil {
		return err
	}
	defer leave()
	return v.call(func(t *C.assay_text, e **C.assay_error) C.assay_status {
		return C.assay_text_attach(t, object, e)
	})
}

// Piece is a token with the bytes of the text that it stands for.
type Piece struct {
	ID         int32
	Begin, End int64
}

// Tokenize gives the pieces of a text, without [CLS] and [SEP].
func (v *Vocabulary) Tokenize(text string) ([]Piece, error) {
	var pieces []Piece
	err := v.call(func(t *C.assay_text, e **C.assay_error) C.assay_status {
		var count C.size_t
		if status := C.assay_text_tokenize(t, cText(text), nil, nil, nil, 0, &count, e); status != C.ASSAY_OK {
			return status
		}
		n := int(count)
		ids, begin, end := make([]C.int32_t, n+1), make([]C.int64_t, n+1), make([]C.int64_t, n+1)
		status := C.assay_text_tokenize(t, cText(text), &ids[0], &begin[0], &end[0], count, &count, e)
		for i := 0; i < n && status == C.ASSAY_OK; i++ {
			pieces = append(pieces, Piece{int32(ids[i]), int64(begin[i]), int64(end[i])})
		}
		return status
	})
	return pieces, err
}

// Question is a question about a paragraph as windows of one length, the rows of a batch.
type Question struct {
	*handle[C.assay_text_question]
}

func newQuestionHandle(q *C.assay_text_question) *Question {
	return &Question{newHandle("question", q, func(q *C.assay_text_question) { C.assay_text_question_free(q) }, nil)}
}

// NewQuestion cuts a question and its paragraph into windows.
func NewQuestion(v *Vocabulary, question, paragraph string, config any) (*Question, error) {
	text, err := configText(config)
	if err != nil {
		return nil, err
	}
	var out *C.assay_text_question
	err = v.call(func(t *C.assay_text, e **C.assay_error) C.assay_status {
		return C.assay_text_question_create(t, cText(question), cText(paragraph), cText(text), &out, e)
	})
	if err != nil {
		return nil, err
	}
	return newQuestionHandle(out), nil
}

// Size is the number of windows, and the length of each, padding included.
func (q *Question) Size() (windows, length int64, err error) {
	var w, l C.int64_t
	err = q.call(func(q *C.assay_text_question, e **C.assay_error) C.assay_status {
		return C.assay_text_question_size(q, &w, &l, e)
	})
	return int64(w), int64(l), err
}

// Windows are the rows of a batch of all windows: ids and types [windows, length], lengths [windows].
func (q *Question) Windows() (ids, types, lengths []int32, err error) {
	windows, length, err := q.Size()
	if err != nil {
		return nil, nil, nil, err
	}
	ids, types, lengths = make([]int32, windows*length), make([]int32, windows*length), make([]int32, windows)
	for w := int64(0); w < windows && err == nil; w++ {
		err = q.call(func(q *C.assay_text_question, e **C.assay_error) C.assay_status {
			return C.assay_text_question_read(q, C.int64_t(w), (*C.int32_t)(&ids[w*length]), (*C.int32_t)(&types[w*length]), (*C.int32_t)(&lengths[w]), e)
		})
	}
	return ids, types, lengths, err
}

// Answer finds the texts that a model's scores mean: of each position of all windows as the answer's
// start and end.
func (q *Question) Answer(start, end []float32, config any) (json.RawMessage, error) {
	text, err := configText(config)
	if err != nil {
		return nil, err
	}
	if len(start) != len(end) {
		return nil, &Error{Code: ErrInvalid, Message: fmt.Sprintf("%d starts and %d ends", len(start), len(end))}
	}
	starts, _ := memory(start)
	ends, _ := memory(end)
	return q.report(func(q *C.assay_text_question, out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_text_question_answer(q, (*C.float)(starts), (*C.float)(ends), C.size_t(len(start)), cText(text), out, e)
	})
}

// Spans are what a model proposes that chooses spans itself, as "electra_base_qa" does.
type Spans struct {
	Windows, Starts, Ends int64
	Start                 []int32   // [windows, starts]
	StartLogProb          []float32 // [windows, starts]
	End                   []int32   // [windows, starts, ends]
	EndLogProb            []float32 // [windows, starts, ends]
	ClassLogit            []float32 // [windows], positive: no answer; nil: of SQuAD 1.1
}

// AnswerSpans is Answer of such spans.
func (q *Question) AnswerSpans(spans Spans, config any) (json.RawMessage, error) {
	text, err := configText(config)
	if err != nil {
		return nil, err
	}
	starts, ends := spans.Windows*spans.Starts, spans.Windows*spans.Starts*spans.Ends
	if int64(len(spans.Start)) != starts || int64(len(spans.StartLogProb)) != starts ||
		int64(len(spans.End)) != ends || int64(len(spans.EndLogProb)) != ends ||
		(spans.ClassLogit != nil && int64(len(spans.ClassLogit)) != spans.Windows) {
		return nil, &Error{Code: ErrInvalid, Message: "a list of the spans has another length than its sizes say"}
	}
	// The struct points to its lists, which memory of Go must not: they are copied to C's.
	var s C.assay_text_spans
	s.struct_size = C.sizeof_assay_text_spans
	s.windows, s.starts, s.ends = C.int64_t(spans.Windows), C.int64_t(spans.Starts), C.int64_t(spans.Ends)
	s.start = (*C.int32_t)(copyToC(spans.Start))
	s.start_log_prob = (*C.float)(copyToC(spans.StartLogProb))
	s.end = (*C.int32_t)(copyToC(spans.End))
	s.end_log_prob = (*C.float)(copyToC(spans.EndLogProb))
	if spans.ClassLogit != nil {
		s.class_logit = (*C.float)(copyToC(spans.ClassLogit))
	}
	defer func() {
		freeC(unsafe.Pointer(s.start))
		freeC(unsafe.Pointer(s.start_log_prob))
		freeC(unsafe.Pointer(s.end))
		freeC(unsafe.Pointer(s.end_log_prob))
		freeC(unsafe.Pointer(s.class_logit))
	}()
	return q.report(func(q *C.assay_text_question, out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_text_question_answer_spans(q, &s, cText(text), out, e)
	})
}

// Squad is a file of SQuAD, of which each question may be answered.
type Squad struct {
	*handle[C.assay_text_squad]
	Questions int64
	Version   int // 1 or 2
}

// OpenSquad reads a file of SQuAD, plain or gzip.
func OpenSquad(path string) (*Squad, error) {
	var out *C.assay_text_squad
	var e *C.assay_error
	status := C.assay_text_squad_open(cText(path), &out, &e)
	if err := failure(status, e); err != nil {
		return nil, err
	}
	s := &Squad{handle: newHandle("squad", out, func(s *C.assay_text_squad) { C.assay_text_squad_free(s) }, nil)}
	var questions C.int64_t
	var version C.int32_t
	err := s.call(func(s *C.assay_text_squad, e **C.assay_error) C.assay_status {
		return C.assay_text_squad_size(s, &questions, &version, e)
	})
	s.Questions, s.Version = int64(questions), int(version)
	return s, err
}

// Question is one question about its paragraph.
func (s *Squad) Question(index int64, v *Vocabulary, config any) (*Question, error) {
	text, err := configText(config)
	if err != nil {
		return nil, err
	}
	vocabulary, err := v.use()
	if err != nil {
		return nil, err
	}
	defer v.done()
	var out *C.assay_text_question
	err = s.call(func(s *C.assay_text_squad, e **C.assay_error) C.assay_status {
		return C.assay_text_squad_question(s, C.int64_t(index), vocabulary, cText(text), &out, e)
	})
	if err != nil {
		return nil, err
	}
	return newQuestionHandle(out), nil
}

// Answer keeps the answer to a question. It waits for other calls of Answer and Save.
func (s *Squad) Answer(index int64, answer string) error {
	return s.call(func(object *C.assay_text_squad, e **C.assay_error) C.assay_status {
		s.inside.Lock()
		defer s.inside.Unlock()
		return C.assay_text_squad_answer(object, C.int64_t(index), cText(answer), e)
	})
}

// Save writes the answers given, in the official form of predictions.
func (s *Squad) Save(path string) error {
	return s.call(func(object *C.assay_text_squad, e **C.assay_error) C.assay_status {
		s.inside.RLock()
		defer s.inside.RUnlock()
		return C.assay_text_squad_save(object, cText(path), e)
	})
}

// ScoreSquad scores predictions as the official scripts do.
func ScoreSquad(file, predictions string) (json.RawMessage, error) {
	return reportOf(func(out **C.assay_report, e **C.assay_error) C.assay_status {
		return C.assay_text_score(cText(file), cText(predictions), out, e)
	})
}

// copyToC copies a list to memory of C.
func copyToC[T any](data []T) unsafe.Pointer {
	_, bytes := memory(data)
	to := C.malloc(bytes + 1)
	copy(unsafe.Slice((*T)(to), len(data)), data)
	return to
}

func freeC(p unsafe.Pointer) { C.free(p) }
