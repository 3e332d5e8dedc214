// Trains a small convolutional network to tell bright spots by their place, goes on where it stopped
// when it is started again, and serves it over HTTP.
//
//	train_and_serve CHECKPOINT STEPS [ADDRESS]
//	curl -d "[$(seq -s, 256)]" ADDRESS/quarter
//
// An interrupt (Ctrl-C) ends the training, whose state is saved, or the serving, once the requests
// that came before are answered.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"math/rand"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	"assay"
)

const batch, side, classes = 32, 16, 4

const longestAnswer = 10 * time.Second

// makeBatch makes images of noise with a bright square in one quarter; the label says which. What
// step s learns from depends on nothing but s.
func makeBatch(step int64) (pixels []float32, labels []int32) {
	random := rand.New(rand.NewSource(step))
	for n := 0; n < batch; n++ {
		label := random.Int31n(classes)
		labels = append(labels, label)
		for p := 0; p < side*side; p++ {
			bright := float32(0)
			if int32(p/side/(side/2)*2+p%side/(side/2)) == label {
				bright = 0.7
			}
			pixels = append(pixels, random.Float32()+bright)
		}
	}
	return pixels, labels
}

// train goes on from the checkpoint, if it is there, to this number of steps or until ctx is done, and
// saves what was learned.
func train(ctx context.Context, c *assay.Context, path string, steps int64) (*assay.Model, error) {
	model, err := assay.NewModel(c, "cnn", assay.JSON{"image": []int{side, side, 1}, "classes": classes, "conv": []int{8, 16}})
	if err != nil {
		return nil, err
	}
	trainer, err := assay.NewTrainer(model, assay.TrainerOptions{
		BatchSize: batch, LearningRate: 0.05,
		Config: assay.JSON{"optimizer": assay.JSON{"name": "sgd", "momentum": 0.9}},
	})
	if err != nil {
		return nil, err
	}
	defer trainer.Close()
	var at struct{ Step int64 }
	report, err := trainer.Load(path, assay.PartAll)
	if err == nil {
		err = json.Unmarshal(report, &at)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	image, err := assay.NewTensor[float32](c, nil, batch, side, side, 1)
	if err != nil {
		return nil, err
	}
	defer image.Close()
	label, err := assay.NewTensor[int32](c, nil, batch)
	if err != nil {
		return nil, err
	}
	defer label.Close()
	for at.Step < steps {
		pixels, labels := makeBatch(at.Step)
		if err := assay.Write(image, pixels); err != nil {
			return nil, err
		}
		if err := assay.Write(label, labels); err != nil {
			return nil, err
		}
		info, err := trainer.Step(ctx, []*assay.Tensor{image, label})
		if errors.Is(err, assay.ErrCancelled) {
			break // what was learned is saved
		} else if err != nil {
			return nil, err
		}
		at.Step = info.Step
		if at.Step%10 == 0 {
			log.Printf("step %d: loss %.4f", at.Step, info.Loss)
		}
	}
	return model, trainer.Save(path, assay.PartAll)
}

// serve answers POSTs of 256 numbers, on as many goroutines as requests come.
func serve(c *assay.Context, predictor *assay.Predictor) http.Handler {
	answer := func(r *http.Request) ([]float32, error) {
		var pixels []float32
		if err := json.NewDecoder(r.Body).Decode(&pixels); err != nil {
			return nil, err
		}
		if len(pixels) != side*side {
			return nil, fmt.Errorf("%d numbers, expected %d", len(pixels), side*side)
		}
		image, err := assay.NewTensor(c, pixels, 1, side, side, 1)
		if err != nil {
			return nil, err
		}
		defer image.Close()
		out, err := predictor.Predict(r.Context(), image) // stops when the client is gone
		if err != nil {
			return nil, err
		}
		for _, o := range out {
			defer o.Close()
		}
		return assay.Read[float32](out[1])
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/quarter", func(w http.ResponseWriter, r *http.Request) {
		probabilities, err := answer(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		json.NewEncoder(w).Encode(probabilities)
	})
	return mux
}

// listen serves until ctx is done, and answers the requests that came before.
func listen(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.Background(), longestAnswer)
	defer cancel()
	return server.Shutdown(limited)
}

func run(arguments []string) error {
	if len(arguments) < 2 || len(arguments) > 3 {
		return errors.New("train_and_serve CHECKPOINT STEPS [ADDRESS]")
	}
	steps, err := strconv.ParseInt(arguments[1], 10, 64)
	if err != nil {
		return err
	}
	c, err := assay.NewContext(assay.ContextOptions{})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	model, err := train(ctx, c, arguments[0], steps)
	if err != nil || len(arguments) == 2 || ctx.Err() != nil {
		return err
	}
	defer model.Close()
	predictor, err := assay.NewPredictor(model, nil)
	if err != nil {
		return err
	}
	defer predictor.Close()
	listener, err := net.Listen("tcp", arguments[2])
	if err != nil {
		return err
	}
	return listen(ctx, listener, serve(c, predictor))
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}
